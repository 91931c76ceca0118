"""The services of the stack are the same in containers as in processes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cdc_stack.compose import SITE as CONTAINERS
from cdc_stack.services import Address, Service, Site, s3_service, spark_services

PROCESSES = Site(
    listen="127.0.0.1",
    addresses={
        name: Address("127.0.0.1", port)
        for port, name in enumerate(sorted(CONTAINERS.addresses), start=20001)
    },
    spark_home="/venv/pyspark",
    python="/venv/bin/python",
    data="/stack",
    conf_file="/stack/connect.conf",
    java_options="-XX:+UseSerialGC",
)
SERVICES = ("s3", "spark-master", "spark-worker-1", "spark-worker-2", "spark-connect")


def services_of(site: Site) -> dict[str, Service]:
    found = (s3_service(site), *spark_services(site))
    return {service.name: service for service in found}


def parts_of(site: Site) -> list[str]:
    """The addresses and paths of ``site``, in an order that is the same for each site."""
    addresses = [address for _, address in sorted(site.addresses.items())]
    return [
        *map(str, addresses),
        *(address.host for address in addresses),
        *(str(address.port) for address in addresses),
        *(site.listen, site.spark_home, site.python, site.data, site.conf_file),
        site.java_options,
    ]


def words_of(service: Service) -> list[str]:
    return [*service.command, *service.environment.values()]


def is_same_word(one: str, other: str) -> bool:
    """Whether the words differ by at most one address or path."""
    parts = zip(parts_of(CONTAINERS), parts_of(PROCESSES), strict=True)
    return one == other or any(one.replace(part, its, 1) == other for part, its in parts)


def are_same(one: Service, other: Service) -> bool:
    words, others = words_of(one), words_of(other)
    return (
        one.environment.keys() == other.environment.keys()
        and (one.name, one.page, one.after) == (other.name, other.page, other.after)
        and len(words) == len(others)
        and all(map(is_same_word, words, others))
    )


@pytest.mark.parametrize("name", SERVICES)
def test_service_differs_only_in_addresses_and_paths(name: str) -> None:
    containers, processes = services_of(CONTAINERS), services_of(PROCESSES)

    assert tuple(containers) == tuple(processes) == SERVICES
    assert words_of(containers[name]) != words_of(processes[name])
    assert are_same(containers[name], processes[name])
    assert containers[name].port == CONTAINERS.addresses[name].port
    assert processes[name].port == PROCESSES.addresses[name].port


@pytest.mark.parametrize("changed", ["--cores", "8", "spark://spark-master:7077"])
def test_service_with_another_word_is_not_the_same(changed: str) -> None:
    worker, other = (services_of(site)["spark-worker-1"] for site in (CONTAINERS, PROCESSES))
    command = tuple("another" if word == changed else word for word in worker.command)

    assert "another" in command
    assert not are_same(replace(worker, command=command), other)


@pytest.mark.parametrize("name", SERVICES)
def test_service_in_a_container_names_no_address_of_a_process(name: str) -> None:
    words = words_of(services_of(CONTAINERS)[name])

    assert not [word for word in words if "127.0.0.1" in word or "/venv" in word]
