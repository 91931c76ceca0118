"""The answers of jobs in the state folder."""

from __future__ import annotations

import os
import uuid
from datetime import timedelta
from pathlib import Path

import pytest

from airflow_provider_cdc.engine.clock import utc_now
from airflow_provider_cdc.engine.storage.files.stores import Files
from airflow_provider_cdc.jobs.answers import (
    KEPT_FOR,
    read_answer,
    sweep_answers,
    write_answer,
)
from airflow_provider_cdc.jobs.model import Answer


def answer(state: Path, age: timedelta) -> str:
    """The id of an answer that was written ``age`` ago."""
    request = uuid.uuid4().hex
    write_answer(str(state), Answer(request))
    moment = (utc_now() - age).timestamp()
    os.utime(state / "answers" / f"{request}.json", (moment, moment))
    return request


def test_sweep_removes_answers_that_no_task_has_read_for_a_week(tmp_path: Path) -> None:
    minute = timedelta(minutes=1)
    old, young = answer(tmp_path, KEPT_FOR + minute), answer(tmp_path, KEPT_FOR - minute)
    sweep_answers(str(tmp_path))
    assert read_answer(str(tmp_path), old) is None
    assert read_answer(str(tmp_path), young) == Answer(young)


def test_sweep_without_answers_does_nothing(tmp_path: Path) -> None:
    sweep_answers(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_sweep_that_cannot_remove_an_answer_removes_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = sorted(answer(tmp_path, 2 * KEPT_FOR) for _ in range(3))
    remove = Files.remove

    def refuse(files: Files, uri: str) -> None:
        if ids[0] in uri:
            raise PermissionError("of another principal")
        remove(files, uri)

    monkeypatch.setattr(Files, "remove", refuse)
    sweep_answers(str(tmp_path))
    assert [path.stem for path in (tmp_path / "answers").iterdir()] == ids[:1]
