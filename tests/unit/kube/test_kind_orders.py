"""The order of the kinds of nodes, as it is stored on a Lease."""

import json

import pytest

from optimus.kube.kind_orders import encode_kind_orders, kind_orders_of
from optimus.kube.leases import Lease
from optimus.placement.first_kind import NO_ORDERS, KindOrders

ORDERS = KindOrders("kind", ("a", "b"), {("ns", "w"): ("b", "a"), ("ns", "none"): ()})


def read(text: str, holder: str = "me") -> KindOrders:
    return kind_orders_of(Lease(holder, kind_orders=text))


def test_what_its_holder_wrote_is_read() -> None:
    assert read(encode_kind_orders(ORDERS, "me")) == ORDERS
    assert read(encode_kind_orders(ORDERS, "another")) == NO_ORDERS


def test_nothing_is_written_where_there_is_no_order() -> None:
    assert encode_kind_orders(KindOrders("kind"), "me") == ""
    assert read("") == NO_ORDERS


@pytest.mark.parametrize(
    "text",
    ["{", "[]", '{"by": "me"}', '{"by": "me", "label": "kind", "usual": "a"}', " " * 40_000],
    ids=["no JSON", "a list", "no label", "no list of kinds", "too long"],
)
def test_what_cannot_be_read_says_nothing(text: str) -> None:
    assert read(text) == NO_ORDERS


def test_it_stays_small_whatever_workloads_and_kinds_are_called() -> None:
    kinds = tuple(f"{number:063}" for number in range(20))
    named = {("n" * 63, f"{number:0253}"): kinds for number in range(99)}
    text = encode_kind_orders(KindOrders("kind", kinds, named), "me")
    assert len(text) <= 32 * 1024
    assert read(text) == KindOrders("kind", kinds[:8])
    few = KindOrders("kind", kinds, dict([*named.items()][:3]))
    assert {len(each) for each in read(encode_kind_orders(few, "me")).workloads.values()} == {8}


def test_fields_that_a_later_version_adds_are_left_alone() -> None:
    stored = json.loads(encode_kind_orders(ORDERS, "me")) | {"more": 1}
    assert read(json.dumps(stored)) == ORDERS
