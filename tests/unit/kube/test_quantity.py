"""Quantities: every form Kubernetes writes, rounding, and nonsense."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.kube.errors import Malformed
from optimus.kube.quantity import offered, requested
from optimus.resources import Resources


@pytest.mark.parametrize(
    ("name", "text", "amount"),
    [
        pytest.param("cpu", "2", 2000, id="whole cores"),
        pytest.param("cpu", 2, 2000, id="a number instead of a string"),
        pytest.param("cpu", 0.5, 500, id="a fraction as a number"),
        pytest.param("cpu", "250m", 250, id="millicores"),
        pytest.param("cpu", "0.0001", 1, id="a fraction of a millicore is rounded up"),
        pytest.param("cpu", "100u", 1, id="microcores are rounded up"),
        pytest.param("cpu", "1e3", 1_000_000, id="an exponent"),
        pytest.param("memory", "1Gi", 1 << 30, id="binary suffix"),
        pytest.param("memory", "1.5Gi", 3 << 29, id="a fraction with a binary suffix"),
        pytest.param("memory", "1G", 10**9, id="decimal suffix"),
        pytest.param(
            "memory", "128974848000m", 128974848, id="memory in thousandths, as some tools write"
        ),
        pytest.param("memory", "1500m", 2, id="a fraction of a byte is rounded up"),
        pytest.param("nvidia.com/gpu", "4", 4, id="an extended resource"),
        pytest.param("memory", "0", 0, id="nothing"),
    ],
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


@given(st.integers(0, 10**12), st.integers(0, 10**12))
def test_larger_texts_are_larger_amounts(left: int, right: int) -> None:
    small, large = sorted((left, right))
    assert requested({"cpu": f"{small}m"})["cpu"] <= requested({"cpu": f"{large}m"})["cpu"]
