"""Instants as the API server writes them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.kube.errors import Malformed
from optimus.kube.times import format_instant, format_second, parse_instant
from tests.cases import cases


@cases(
    ("text", "seconds"),
    {
        "whole seconds": ("2026-01-01T00:00:00Z", 1767225600.0),
        "nanoseconds, as in logs": ("2026-01-01T00:00:00.123456789Z", 1767225600.123456789),
        "one digit, as in logs": ("2026-01-01T00:00:00.5Z", 1767225600.5),
        "another zone, as some kubelets write": ("2026-01-01T01:00:00+01:00", 1767225600.0),
    },
)
def test_instants_are_read(text: str, seconds: float) -> None:
    assert parse_instant(text) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize(
    "text", ["", "yesterday", "2026-01-01", "2026-13-01T00:00:00Z", "2026-01-01T00:00:00"]
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(Malformed, match="is not an RFC 3339 time"):
        parse_instant(text)


@given(st.floats(0, 4e9))
def test_what_is_written_is_read_again(seconds: float) -> None:
    assert parse_instant(format_instant(seconds)) == pytest.approx(seconds, abs=2e-6)
    assert parse_instant(format_second(seconds)) == pytest.approx(seconds, abs=1.0)


@given(st.text(max_size=40))
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    try:
        parse_instant(text)
    except Malformed:
        return
    assert "T" in text.upper()


@cases(
    ("seconds", "text"),
    {
        "the end of a job with 1e11 epochs": (5e11, "9999-12-31T23:59:59Z"),
        "any number of epochs": (1e99, "9999-12-31T23:59:59Z"),
        "never": (float("inf"), "9999-12-31T23:59:59Z"),
        "a deadline in the last year of another zone": (
            parse_instant("9999-12-31T23:59:59-14:00"),
            "9999-12-31T23:59:59Z",
        ),
        "a deadline in the first year": (
            parse_instant("0001-01-01T00:00:00+14:00"),
            "1000-01-01T00:00:00Z",
        ),
    },
)
def test_instants_that_rfc_3339_cannot_say_are_its_nearest(seconds: float, text: str) -> None:
    assert format_second(seconds) == text
    assert parse_instant(format_instant(seconds)) == parse_instant(text)
