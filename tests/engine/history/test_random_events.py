"""Random histories of many keys, in random batches, beside a plain model."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from history_lab import Arrival, HistoryLab
from history_model import Event, Rules, intervals, newest
from stream_lab import Crash, CrashAt

from airflow_provider_cdc.engine import ProtocolPoint

KEYS, EVENTS = 300, 7
SEQUENCES, WORDS = 12, ("a", "b", "c", None)
BOTH = ("v", "u")
LATE: dict[str, tuple[dict[str, Any], Rules]] = {
    "plain": ({"scd_type": 2}, Rules(BOTH)),
    "partly_tracked": (
        {"scd_type": 2, "track_history_column_list": "v"},
        Rules(("v",)),
    ),
    "filled": (
        {"scd_type": 2, "ignore_null_updates": "v", "deleted": "row"},
        Rules(BOTH, ("v",), marks_deletes=True),
    ),
    "copy": ({}, Rules(BOTH)),
    "filled_copy": ({"ignore_null_updates": True}, Rules(BOTH, BOTH)),
}
TRUNCATED: dict[str, tuple[dict[str, Any], Rules]] = {
    "cut": ({"scd_type": 2, "apply_as_truncates": "op = 'T'"}, Rules(BOTH)),
    "cut_partly": (
        {
            "scd_type": 2,
            "apply_as_truncates": "op = 'T'",
            "track_history_except_column_list": "u",
            "ignore_null_updates": "u",
        },
        Rules(("v",), ("u",)),
    ),
    "cut_copy": ({"apply_as_truncates": "op = 'T'"}, Rules(BOTH)),
}
KILLED = (
    (ProtocolPoint.BEFORE_BEGIN, None),
    (ProtocolPoint.AFTER_BEGIN, None),
    (ProtocolPoint.BEFORE_STATEMENT, 0),
    (ProtocolPoint.AFTER_STATEMENT, 0),
    (ProtocolPoint.BEFORE_STATEMENT, 1),
    (ProtocolPoint.AFTER_STATEMENT, 1),
    (ProtocolPoint.BEFORE_COMMIT, None),
    (ProtocolPoint.AFTER_COMMIT, None),
)


def random_batches(random: Random, count: int, *, truncates: bool) -> list[list[Arrival]]:
    """Events of many keys in random batches, some of them twice."""
    batches: list[list[Arrival]] = [[] for _ in range(count)]
    for key in map(str, range(KEYS)):
        for _ in range(random.randint(1, EVENTS)):
            kind = random.choices(("U", "D"), (4, 1))[0]
            values = {name: random.choice(WORDS) for name in BOTH} if kind == "U" else {}
            event = Event(random.randrange(SEQUENCES), kind, values)
            for _ in range(random.choices((1, 2), (5, 1))[0]):
                random.choice(batches).append((key, event))
    if truncates:
        for sequence in random.sample(range(SEQUENCES), 2):
            random.choice(batches).append((None, Event(sequence, "T")))
    for batch in batches:
        random.shuffle(batch)
    return batches


@pytest.mark.parametrize(
    ("seed", "batches", "targets"),
    [
        pytest.param(1, 2, ("partly_tracked", "filled", "filled_copy"), id="late events"),
        pytest.param(2, 2, ("cut_partly", "cut_copy"), id="truncates", marks=pytest.mark.thorough),
        *(
            pytest.param(seed, 5, found, id=f"{seed}", marks=pytest.mark.thorough)
            for seed in range(3, 15)
            for found in ((tuple(LATE), tuple(TRUNCATED))[seed % 2],)
        ),
    ],
)
def test_random_histories_match_a_plain_model(
    lab: HistoryLab, seed: int, batches: int, targets: tuple[str, ...]
) -> None:
    random = Random(seed)
    rules_of = {name: found for name, found in (LATE | TRUNCATED).items() if name in targets}
    truncates = targets[0] in TRUNCATED
    lab.make_events(*targets)
    arrived: dict[str | None, list[Event]] = {}
    for batch in random_batches(random, batches, truncates=truncates):
        lab.deliver(batch)
        for key, event in batch:
            arrived.setdefault(key, []).append(event)
        for target, (options, _) in rules_of.items():
            if random.random() < 1 / 3:
                engine = lab.new_engine(CrashAt(*random.choice(KILLED)))
                try:
                    lab.apply(target, engine=engine, **options)
                except Crash:
                    lab.apply(target, **options)
            else:
                lab.apply(target, **options)
    cuts = arrived.pop(None, [])
    for target, (options, rules) in rules_of.items():
        is_type_2 = options.get("scd_type") == 2
        found = lab.intervals(target) if is_type_2 else lab.newest(target)
        model = intervals if is_type_2 else newest
        expected = {key: model([*cuts, *events], rules) for key, events in arrived.items()}
        assert found == {key: rows for key, rows in expected.items() if rows}, target
