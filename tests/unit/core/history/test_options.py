"""The options of history targets: what is accepted, what contradicts, what a table remembers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from history_options import HISTORY_OPTIONS

from airflow_provider_cdc.engine.core.arguments.expressions import check_expression, plain_column
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.history.options import (
    HistoryOptions,
    OnTie,
    SourceKind,
    check_unchanged,
    stored_options,
    with_alterations,
)
from airflow_provider_cdc.engine.core.history.parsing import parse_options
from airflow_provider_cdc.engine.core.history.shape import (
    chosen_columns,
    history_shape,
    sequence_sql,
)

GIVEN: dict[str, Any] = {
    **HISTORY_OPTIONS,
    "source": SourceKind.STREAM,
    "sequence_by": None,
    "tombstone_horizon": timedelta(days=2),
}


def options(**changed: Any) -> HistoryOptions:
    return parse_options("history target t", **(GIVEN | changed))


@pytest.mark.parametrize(
    ("argument", "changed"),
    [
        ("scd_type", {"scd_type": 3}),
        ("has no key", {"keys": []}),
        ("keys", {"keys": ["id", "ID"]}),
        ("except_column_list", {"column_list": "v", "except_column_list": "u"}),
        ("except_column_list", {"except_column_list": "ID"}),
        (
            "track_history_except_column_list",
            {"track_history_column_list": "v", "track_history_except_column_list": "u"},
        ),
        ("track_history_except_column_list", {"track_history_except_column_list": "id"}),
        ("ignore_null_updates", {"ignore_null_updates": "id"}),
        ("track_history_column_list", {"scd_type": 1, "track_history_column_list": "v"}),
        ("end_column", {"scd_type": 1, "end_column": "valid_to"}),
        ("open_end", {"scd_type": 1, "open_end": "9999-12-31"}),
        ("current_column", {"scd_type": 1, "current_column": "is_current"}),
        ("deleted", {"scd_type": 1, "deleted": "row"}),
        ("start_column", {"start_column": "at", "end_column": "AT"}),
        ("apply_as_truncates", {"apply_as_truncates": "op = 'T'"}),
        (
            "deleted",
            {"sequence_by": "s", "apply_as_truncates": "op = 'T'", "deleted": "row"},
        ),
        ("query", {"source": SourceKind.QUERY}),
        ("sequence_by", {"source": SourceKind.SNAPSHOT, "sequence_by": "s"}),
        ("apply_as_deletes", {"source": SourceKind.SNAPSHOT, "apply_as_deletes": "deleted"}),
        ("ignore_null_updates", {"source": SourceKind.SNAPSHOT, "ignore_null_updates": True}),
        ("absent_scope", {"absent_scope": "region"}),
        ("absent", {"absent": "ignore"}),
        ("sequence_by", {"sequence_by": "s; DROP TABLE t"}),
        ("sequence_by", {"sequence_by": "SELECT 1"}),
        ("sequence_by", {"sequence_by": ["a", "b FROM t"]}),
        ("apply_as_deletes", {"apply_as_deletes": "op = 'D' AS x"}),
        ("apply_as_deletes", {"apply_as_deletes": ""}),
        ("on_tie", {"on_tie": "first"}),
        ("on_null", {"on_null": "drop"}),
        ("deleted", {"deleted": "flag"}),
        ("tombstone_horizon", {"tombstone_horizon": "soon"}),
        ("payload", {"payload": "maxwell"}),
        ("payload", {"source": SourceKind.SNAPSHOT, "payload": "debezium"}),
        ("apply_as_deletes", {"payload": "debezium", "apply_as_deletes": "op = 'd'"}),
        ("payload_schema", {"payload_schema": "id INT"}),
        ("unavailable_value", {"unavailable_value": "?"}),
        ("current_view", {"current_view": "/a/path"}),
        ("current_view", {"scd_type": 1, "current_view": "lake.now"}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_options_that_contradict_are_refused_by_name(
    argument: str, changed: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequest, match=argument):
        options(**changed)


def test_tie_fails_in_stream_order_and_keeps_the_last_otherwise() -> None:
    assert options().on_tie is OnTie.FAIL
    assert options(sequence_by="s").on_tie is OnTie.LAST
    assert options(sequence_by="s", on_tie="fail").on_tie is OnTie.FAIL


def test_options_are_read_back_as_they_were_stored() -> None:
    wanted = options(
        sequence_by=["updated_at", "`a``b`"],
        apply_as_deletes="op = 'D\"'",
        ignore_null_updates=["v"],
        open_end="9999-12-31",
        tombstone_horizon=None,
    )

    assert stored_options("t", wanted.as_property()) == wanted
    with pytest.raises(InvalidRequest, match="cannot be read"):
        stored_options("t", '{"keys": 1}')


def test_later_call_may_change_only_what_leaves_the_rows_as_they_are() -> None:
    stored = options(sequence_by="s")
    changed = options(sequence_by="s", on_null="quarantine", tombstone_horizon="P9D")

    check_unchanged("t", stored, changed)
    assert with_alterations(stored, changed) == changed
    for other in (options(), options(sequence_by="s", keys="k"), options(sequence_by="r")):
        with pytest.raises(InvalidRequest, match="has another"):
            check_unchanged("t", stored, other)


def test_columns_are_chosen_in_the_order_of_the_source() -> None:
    found = ["v", "ID", "op", "seq", "u"]

    assert chosen_columns("t", options(except_column_list=["OP", "seq"]), found) == (
        ("ID",),
        ("v", "u"),
    )
    assert chosen_columns("t", options(column_list=["u"]), found) == (("ID",), ("u",))
    for argument in ("column_list", "except_column_list", "track_history_column_list"):
        with pytest.raises(InvalidRequest, match=argument):
            chosen_columns("t", options(**{argument: "missing"}), found)


@pytest.mark.parametrize("name", ["__START_AT", "__end_at", "_cdc_kind", "__DELETED"])
def test_column_named_like_one_of_the_history_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest, match="column"):
        chosen_columns("t", options(deleted="row"), ["id", name])


def test_columns_that_a_merge_treats_as_one_are_refused() -> None:
    with pytest.raises(InvalidRequest, match="same column"):
        chosen_columns("t", options(), ["id", "s", "\u017f"])


def test_copy_has_a_start_only_if_its_columns_do_not_show_it() -> None:
    def start(**changed: Any) -> str | None:
        found = options(scd_type=1, **changed)
        return history_shape(found, ["id"], {"v": "string", "Seq": "int"}, "INT").start

    assert start() is None
    assert start(sequence_by="seq") is None
    assert start(sequence_by=["seq", "v"]) is None
    assert start(sequence_by="other") == "__START_AT"
    assert start(sequence_by="seq + 1", start_column="at") == "at"


def test_several_sequence_columns_are_compared_one_after_the_other() -> None:
    assert sequence_sql(options(sequence_by=["a", "b + 1", "A"])) == (
        "struct(a AS `a`, b + 1 AS `_2`, A AS `A_2`)"
    )


@pytest.mark.parametrize(
    "text", ["a", "`a b`", "a.b", "max(a)", "CASE WHEN a THEN 1 END", "a = 'x'"]
)
def test_one_expression_is_accepted(text: str) -> None:
    check_expression("t", "sequence_by", text)


def test_plain_column_differs_from_an_expression() -> None:
    assert plain_column("`a b`") == "a b"
    assert plain_column("a + 1") is None
    assert plain_column("a.b") is None
