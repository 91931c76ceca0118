"""The acts of ``airflow cdc``. Those that need Spark run a job, as the operators do.

Airflow logs to standard output. So the log of a job is shown only with ``--verbose``.
"""

from __future__ import annotations

import json
import os
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from airflow.sdk.exceptions import AirflowException
from airflow.utils.cli import suppress_logs_and_warning

from airflow_provider_cdc.engine.core.errors import CdcError
from airflow_provider_cdc.engine.core.model.stream import Stream
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.registry_reach import check_reach
from airflow_provider_cdc.jobs.model import Answer, CreateStream, Task

from .act_options import ALTER_OPTIONS, CREATE_OPTIONS, ActOption
from .acts import (
    altered_line,
    existing_stream,
    read_task,
    rewind_task,
    row_lines,
    stream_line,
    stream_spec,
)
from .airflow_settings import TABLE, connection_settings, print_data
from .lines import moved_line
from .text_tables import print_rows

_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"


@suppress_logs_and_warning
def create(args: Namespace) -> None:
    """Create a stream by a job, and print what was created."""
    with _plain_errors():
        spec = stream_spec(args.name, _given(args, CREATE_OPTIONS))
        catalog = connection_settings(args.conn_id).catalog()
        if spec.or_replace:
            _confirm("replace", args)
        found = existing_stream(catalog, spec)
        if found is None:
            found = _changed(args.conn_id, CreateStream(spec))
        print(json.dumps(stream_line("create", found)))


def alter(args: Namespace) -> None:
    """Alter a stream, and print what changed."""
    with _plain_errors():
        catalog = connection_settings(args.conn_id).catalog()
        print(json.dumps(altered_line(catalog, args.name, _given(args, ALTER_OPTIONS))))


@suppress_logs_and_warning
def read(args: Namespace) -> None:
    """Print rows of the change set of a stream, which a job reads."""
    with _plain_errors():
        catalog = connection_settings(args.conn_id).catalog()
        found = answer_of(args.conn_id, read_task(catalog, args.name, args.limit)).rows
    assert found is not None  # an answer to this task has rows, or an error
    if args.output == TABLE:
        print_rows(found.columns, row_lines(found))
    else:
        print_data(row_lines(found), args.output)


def advance(args: Namespace) -> None:
    """Advance a stream, after a confirmation, and print how far."""
    _move("advance", args)


@suppress_logs_and_warning
def rewind(args: Namespace) -> None:
    """Move a stream back by a job, after a confirmation, and print where it is."""
    with _plain_errors():
        task = rewind_task(connection_settings(args.conn_id).catalog(), args.name, args.to)
        _confirm("rewind", args)
        print(json.dumps(stream_line("rewind", _changed(args.conn_id, task))))


def drop(args: Namespace) -> None:
    """Drop a stream, after a confirmation."""
    _move("drop", args)


def _move(act: str, args: Namespace) -> None:
    """Advance or drop a stream, after a confirmation, and print what was done."""
    _confirm(act, args)
    with _plain_errors():
        catalog = connection_settings(args.conn_id).catalog()
        print(json.dumps(moved_line(catalog, act, args.name)))


def _given(args: Namespace, options: Sequence[ActOption]) -> dict[str, Any]:
    return {option.name: getattr(args, option.name) for option in options}


def _confirm(act: str, args: Namespace) -> None:
    """Ask whether to do ``act``; without a yes, the command ends."""
    if args.yes:
        return
    try:
        answer = input(f"{act} stream {args.name}? [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() != "y":
        raise SystemExit("Nothing was done.")


@contextmanager
def _plain_errors() -> Iterator[None]:
    """End the command with an error of this package in one line, and with the exit code 1."""
    try:
        yield
    except (CdcError, AirflowException) as error:
        raise SystemExit(str(error)) from None


def _changed(conn_id: str, task: Task) -> Stream:
    """The stream that a job created or moved."""
    stream = answer_of(conn_id, task).stream
    assert stream is not None  # an answer to these tasks has a stream, or an error
    return stream


def answer_of(conn_id: str, task: Task) -> Answer:
    """The answer of a job. Ctrl-C ends the job."""
    with _stored_connections():
        hook = CdcHook(conn_id)
        check_reach(hook)
        try:
            return hook.submit(task)
        except KeyboardInterrupt:
            hook.kill()
            raise SystemExit("The job was ended.") from None


@contextmanager
def _stored_connections() -> Iterator[None]:
    """Let hooks find the connections in Airflow's database, as in a server of Airflow. Airflow's
    own commands set this variable too.
    """
    before = os.environ.get(_CONTEXT)
    os.environ[_CONTEXT] = "server"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_CONTEXT]
        else:
            os.environ[_CONTEXT] = before
