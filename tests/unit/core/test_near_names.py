"""Which stream a misspelt name may mean."""

from __future__ import annotations

import pytest

from airflow_provider_cdc.engine.core.arguments.one_or_several import one_or_several
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.near_names import SHOWN_NAMES, advice_on

NAMES = ["cc", "customer_changes", "orders_stream", "Flights"]


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("ccc", "cc"),
        ("c", "cc"),
        ("CC_", "cc"),
        ("customers_changes", "customer_changes"),
        ("custmer_changes", "customer_changes"),
        ("customer_change", "customer_changes"),
        ("cutsomer_chagnes", "customer_changes"),
        ("customer", "customer_changes"),
        ("order_stream", "orders_stream"),
        ("ordersstream", "orders_stream"),
        ("fligths", "Flights"),
    ],
)
def test_typical_misspelling_finds_the_name(typed: str, meant: str) -> None:
    assert advice_on(typed, NAMES).startswith(f"did you mean {meant}")


def test_name_unlike_any_other_is_answered_with_the_existing_names() -> None:
    assert advice_on("xyz", NAMES).endswith(": Flights, cc, customer_changes, orders_stream")
    assert advice_on("xyz", []) == "create it: there is no stream yet"

    many = [f"stream_{number}" for number in range(SHOWN_NAMES + 1)]
    assert "engine.show_streams() or the command streams lists" in advice_on("xyz", many)


@pytest.mark.parametrize(
    ("given", "found"),
    [("INSERT", ("INSERT",)), (["a", "b"], ("a", "b")), (("a",), ("a",)), ([], ()), ("", ("",))],
)
def test_one_text_is_one_element(given: object, found: tuple[str, ...]) -> None:
    assert one_or_several("consumer c", "statements", given) == found


@pytest.mark.parametrize("given", [None, 5, ["a", None], [["a"]], {"a": 1}.items()])
def test_value_that_is_neither_text_nor_a_list_of_texts_is_refused(given: object) -> None:
    with pytest.raises(InvalidRequest, match="expected a text or a list of texts, found"):
        one_or_several("consumer c", "statements", given)
