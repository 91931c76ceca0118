from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_cdc.engine.core.consumption.shared_targets import chains

TARGETS = st.lists(st.sets(st.sampled_from("abcdefgh"), max_size=3), max_size=12)


def connected(targets: list[set[str]]) -> set[frozenset[int]]:
    """The groups by repeated joining, the plain way."""
    groups = [{place} for place in range(len(targets))]
    for first, second in combinations(range(len(targets)), 2):
        if targets[first] & targets[second]:
            joined = [group for group in groups if first in group or second in group]
            groups = [group for group in groups if group not in joined] + [set().union(*joined)]
    return {frozenset(group) for group in groups}


@given(TARGETS)
def test_consumptions_that_share_a_target_are_in_one_chain(targets: list[set[str]]) -> None:
    found = chains(targets)

    assert {frozenset(chain) for chain in found} == connected(targets)
    assert sorted(place for chain in found for place in chain) == list(range(len(targets)))
    assert all(chain == sorted(chain) for chain in found)
    assert [len(chain) for chain in found] == sorted(map(len, found), reverse=True)


def test_third_consumption_connects_two_others() -> None:
    assert chains([{"a"}, {"b"}, {"c"}, {"b", "a"}]) == [[0, 1, 3], [2]]


def test_consumption_without_targets_is_alone() -> None:
    assert chains([set(), {"a"}, set()]) == [[0], [1], [2]]
