"""Storage options of delta-rs, translated for fsspec."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.storage.files.store_options import fsspec_options

AWS = {
    "AWS_ACCESS_KEY_ID": "me",
    "AWS_SECRET_ACCESS_KEY": "hidden",
    "AWS_SESSION_TOKEN": "today",
    "AWS_ENDPOINT_URL": "http://store:9000",
    "AWS_REGION": "eu",
    "AWS_ALLOW_HTTP": "true",
}
AZURE = {
    "AZURE_STORAGE_ACCOUNT_NAME": "lake",
    "AZURE_STORAGE_ACCOUNT_KEY": "hidden",
    "AZURE_STORAGE_SAS_KEY": "signed",
    "AZURE_TENANT_ID": "tenant",
    "AZURE_CLIENT_ID": "client",
    "AZURE_CLIENT_SECRET": "hidden too",
    "AZURE_USE_AZURE_CLI": "true",
}
S3FS = {
    "key": "me",
    "secret": "hidden",
    "token": "today",
    "endpoint_url": "http://store:9000",
    "client_kwargs": {"region_name": "eu"},
    "max_concurrency": 1,
}
ADLFS = {
    "account_name": "lake",
    "account_key": "hidden",
    "sas_token": "signed",
    "tenant_id": "tenant",
    "client_id": "client",
    "client_secret": "hidden too",
}


@pytest.mark.parametrize(
    ("scheme", "options", "expected"),
    [
        ("s3", AWS, S3FS),
        ("s3", {name.lower(): value for name, value in AWS.items()}, S3FS),
        (
            "s3",
            {"access_key_id": "me", "region": "eu"},
            {"key": "me", "client_kwargs": {"region_name": "eu"}, "max_concurrency": 1},
        ),
        ("abfs", AZURE, ADLFS),
        (
            "az",
            {"azure_storage_access_key": "k", "AZURE_AUTHORITY_ID": "t"},
            {"account_key": "k", "tenant_id": "t"},
        ),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT": "/etc/key.json"}, {"token": "/etc/key.json"}),
        ("gcs", {"GOOGLE_APPLICATION_CREDENTIALS": "/etc/key.json"}, {"token": "/etc/key.json"}),
        ("gs", {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"type": "a"}'}, {"token": {"type": "a"}}),
    ],
)
def test_option_names_of_delta_rs_become_those_of_fsspec(
    scheme: str, options: dict[str, str], expected: dict[str, Any]
) -> None:
    assert fsspec_options(options, scheme) == expected


def test_region_takes_precedence_over_the_default_region() -> None:
    options = {"AWS_DEFAULT_REGION": "us", "AWS_REGION": "eu"}

    assert fsspec_options(options, "s3")["client_kwargs"] == {"region_name": "eu"}


def test_option_names_of_fsspec_are_kept_and_take_precedence() -> None:
    options = {
        "AWS_ACCESS_KEY_ID": "me",
        "AWS_REGION": "eu",
        "key": "another",
        "client_kwargs": {"verify": False},
        "anon": False,
        "max_concurrency": 4,
    }

    assert fsspec_options(options, "s3") == {
        "key": "another",
        "client_kwargs": {"region_name": "eu", "verify": False},
        "anon": False,
        "max_concurrency": 4,
    }


@pytest.mark.parametrize("scheme", ["", "file", "memory", "gs"])
def test_options_of_another_store_are_left_out(scheme: str) -> None:
    assert fsspec_options({**AWS, **AZURE, "auto_mkdir": True}, scheme) == {"auto_mkdir": True}


@pytest.mark.parametrize("key", ["hunter2 {", "[1]"])
def test_malformed_service_account_key_is_refused_without_showing_it(key: str) -> None:
    with pytest.raises(InvalidRequest, match="GOOGLE_SERVICE_ACCOUNT_KEY is not") as caught:
        fsspec_options({"GOOGLE_SERVICE_ACCOUNT_KEY": key}, "gs")

    assert key not in str(caught.value)
