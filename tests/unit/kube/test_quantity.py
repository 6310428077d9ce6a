"""Quantities: every form Kubernetes writes, rounding, and nonsense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.kube.errors import Malformed
from optimus.kube.quantity import offered, requested
from optimus.resources import Resources
from tests.cases import cases


@cases(
    ("name", "text", "amount"),
    {
        "whole cores": ("cpu", "2", 2000),
        "a number instead of a string": ("cpu", 2, 2000),
        "a fraction as a number": ("cpu", 0.5, 500),
        "millicores": ("cpu", "250m", 250),
        "a fraction of a millicore is rounded up": ("cpu", "0.0001", 1),
        "microcores are rounded up": ("cpu", "100u", 1),
        "an exponent": ("cpu", "1e3", 1_000_000),
        "binary suffix": ("memory", "1Gi", 1 << 30),
        "a fraction with a binary suffix": ("memory", "1.5Gi", 3 << 29),
        "decimal suffix": ("memory", "1G", 10**9),
        "memory in thousandths, as some tools write": ("memory", "128974848000m", 128974848),
        "a fraction of a byte is rounded up": ("memory", "1500m", 2),
        "an extended resource": ("nvidia.com/gpu", "4", 4),
        "nothing": ("memory", "0", 0),
    },
)
def test_amounts_are_integers(name: str, text: str | float, amount: int) -> None:
    assert requested({name: text})[name] == amount


def test_what_a_node_has_is_rounded_down() -> None:
    assert offered({"cpu": "1.0009", "memory": "1500m"}) == Resources(cpu=1000, memory=1)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lots",
        "1 Gi",
        "NaN",
        "Infinity",
        "1_000",
        "٣",
        "0x10",
        "1mi",
        "--1",
        "1e999999999",
        "9" * 70,
        "1Ki5",
        "\n",
    ],
)
def test_nonsense_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(Malformed, match=r"^memory: .* is not a quantity"):
        requested({"memory": text})


@pytest.mark.parametrize(
    ("text", "reason"), [("-1", "is negative"), ("10E", "is too large"), ("1e60", "is too large")]
)
def test_amounts_beyond_reason_are_refused(text: str, reason: str) -> None:
    with pytest.raises(Malformed, match=reason):
        requested({"memory": text})


@given(st.text(max_size=80))
def test_any_text_is_an_amount_or_refused(text: str) -> None:
    try:
        amount = requested({"cpu": text})["cpu"]
    except Malformed:
        return
    assert 0 <= amount < 2**63
