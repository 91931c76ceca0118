"""The names that `airflow_provider_cdc.engine` exports."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from typing import Any, get_args, get_type_hints

import pytest

from airflow_provider_cdc import engine

# Values that users do not make, and results of methods for other parts of the package.
INTERNAL = {"Kept", "QuarantineSize", "Right", "StreamSpan", "UnreadableStream"}


def classes_in(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and hint.__module__.startswith("airflow_provider_cdc"):
        yield hint
    for argument in get_args(hint):
        yield from classes_in(argument)


@pytest.mark.parametrize("owner", ["Engine", "StreamCatalog", "Transaction"])
def test_engine_exports_the_types_of_public_methods(owner: str) -> None:
    named = set()
    for name, member in inspect.getmembers(getattr(engine, owner), callable):
        if not name.startswith("_"):
            method = inspect.unwrap(member)
            hints = get_type_hints(method, vars(sys.modules[method.__module__]))
            named |= {found.__name__ for hint in hints.values() for found in classes_in(hint)}

    assert named
    assert named - INTERNAL <= set(engine.__all__)


def test_each_exported_name_exists_and_has_a_docstring() -> None:
    assert engine.__all__ == sorted(set(engine.__all__), key=lambda name: (name[0].islower(), name))
    for name in engine.__all__:
        assert getattr(engine, name).__doc__, name
