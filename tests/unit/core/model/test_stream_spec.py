from __future__ import annotations

import inspect
from dataclasses import fields
from datetime import timedelta

import pytest

from airflow_provider_cdc.engine import Engine, OffsetOf, Version
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.model.stream_spec import StreamSpec

SIGNATURE = inspect.signature(Engine.create_stream).parameters
DEFAULTS = {name: each.default for name, each in SIGNATURE.items() if name != "self"}


def test_spec_has_the_arguments_of_create_stream() -> None:
    assert {field.name for field in fields(StreamSpec)} == set(DEFAULTS)


def test_spec_of_defaults_has_the_defaults_of_create_stream() -> None:
    assert StreamSpec.parsed(**DEFAULTS | {"name": "s"}) == StreamSpec(name="s")


def test_arguments_of_a_spec_give_the_same_spec() -> None:
    given = {"name": "s", "at": OffsetOf("o"), "readers": ["a"], "max_lag": "PT1H"}
    spec = StreamSpec.parsed(**DEFAULTS | given)

    assert spec.at == {"offset_of": "o"}
    assert (spec.readers, spec.max_lag) == (("a",), timedelta(hours=1))
    assert StreamSpec.parsed(**spec.arguments) == spec


def test_bound_of_a_spec_with_two_points_is_refused() -> None:
    spec = StreamSpec.parsed(**DEFAULTS | {"name": "s", "at": Version(1), "before": Version(2)})

    with pytest.raises(InvalidRequest, match="either at or before"):
        spec.bound  # noqa: B018
