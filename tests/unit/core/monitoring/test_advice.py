"""The advice on each condition: which conditions have one, and whether its code can be run."""

from __future__ import annotations

import ast
import inspect
import shlex

import pytest

from airflow_provider_cdc.engine import Engine
from airflow_provider_cdc.engine.core.monitoring.advice import advice_on
from airflow_provider_cdc.engine.core.monitoring.conditions import Condition
from airflow_provider_cdc.engine.core.monitoring.status_snapshot import Advice

HEALTHY = {Condition.CURRENT, Condition.WAITING, Condition.CONSUMING}
HOSTILE = "it's; `rm` <img onerror>"


def advice(condition: Condition, name: str, *, can_be_read: bool = True) -> Advice | None:
    return advice_on(
        condition,
        name,
        can_be_read=can_be_read,
        last_consumer=f"{name}/consume",
        upsert_table=name,
    )


@pytest.mark.parametrize("condition", Condition)
def test_advice_is_given_on_each_condition_that_is_no_health(condition: Condition) -> None:
    assert (advice(condition, "s") is None) == (condition in HEALTHY)


@pytest.mark.parametrize("condition", [each for each in Condition if each not in HEALTHY])
@pytest.mark.parametrize("can_be_read", [True, False])
def test_code_of_an_advice_runs_whatever_the_name_is(
    condition: Condition, can_be_read: bool
) -> None:
    found = advice(condition, HOSTILE, can_be_read=can_be_read)
    assert found is not None
    if found.code is None:
        return
    if found.code.startswith("airflow "):
        assert shlex.split(found.code) == ["airflow", "dags", "trigger", HOSTILE]
        return
    call = ast.parse(found.code, mode="eval").body
    assert isinstance(call, ast.Call)
    assert isinstance(call.func, ast.Attribute)
    method = inspect.signature(getattr(Engine, call.func.attr))
    arguments = [ast.literal_eval(argument) for argument in call.args]
    keywords = {each.arg or "": ast.literal_eval(each.value) for each in call.keywords}
    method.bind(None, *arguments, **keywords)
    assert arguments[0] == HOSTILE
