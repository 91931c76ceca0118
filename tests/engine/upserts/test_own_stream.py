"""The stream on the changes of an upsert table: everyone can read it, only the table moves it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from stream_lab import Crash, CrashAt
from upsert_lab import UpsertLab

from airflow_provider_cdc.engine import Engine, InvalidRequest, ProtocolPoint, Version


def test_stream_of_an_upsert_table_moves_only_by_methods_of_the_table(
    lab: UpsertLab,
) -> None:
    engine, log = lab.engine, f"delta.`{lab.path('log')}`"
    lab.make("log", "id INT")
    stream = engine.describe_upsert_table(lab.table()).stream
    lab.write((1, "Tal", 3000, "UPSERT"))
    insert = f"INSERT INTO {log} SELECT ID FROM {stream}"

    def use(act: Callable[[], object]) -> None:
        with pytest.raises(InvalidRequest, match="cannot be moved or changed by itself"):
            act()

    use(lambda: engine.advance_stream(stream))
    use(lambda: engine.consume([insert], consumer="c"))
    use(lambda: engine.read_and_consume(f"SELECT ID FROM {stream}", consumer="c"))
    use(lambda: _in_a_transaction(engine, insert))
    use(lambda: engine.rewind_stream(stream, to=Version(0)))
    use(lambda: engine.recover_stream(stream, lab.path("log"), "id", consumer="c"))
    use(lambda: engine.rename_stream(stream, "other"))
    use(lambda: engine.alter_stream(stream, max_lag=timedelta(days=1)))
    use(lambda: engine.drop_stream(stream))
    use(lambda: engine.create_stream(stream, on_table=lab.path("log"), or_replace=True))

    assert engine.stream_has_data(stream)
    assert engine.read_stream(stream).count() == 1
    assert engine.explain_stream(stream).commit_count == 1
    assert engine.describe_stream(stream).commits_behind == 1
    assert engine.stream_history(stream)[-1].transition == "created"
    with pytest.raises(Crash):
        lab.apply(lab.new_engine(CrashAt(ProtocolPoint.AFTER_BEGIN)))
    assert engine.abort_consumption(stream).consumption is None

    engine.maintain_streams()
    engine.alter_upsert_table(lab.table(), max_staleness="PT10M")
    lab.apply()
    assert lab.applied() == [(1, "Tal", 3000)]
    engine.drop_upsert_table(lab.table())
    with pytest.raises(InvalidRequest, match="upsert table"):
        engine.undrop_stream(stream)


def _in_a_transaction(engine: Engine, statement: str) -> None:
    with engine.transaction(consumer="c") as tx:
        tx.sql(statement)
