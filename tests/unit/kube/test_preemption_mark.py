"""The annotation of a preempted job."""

import pytest

from optimus.kube.suspension import PreemptionMark, read_preemption


def test_what_is_written_is_read() -> None:
    mark = PreemptionMark("ns/high", "u-1", 1_767_225_600.0)
    assert mark.text == "ns/high u-1 2026-01-01T00:00:00Z"
    assert read_preemption(mark.text) == mark


@pytest.mark.parametrize("text", ["", "ns/high u-1", "ns/high u-1 yesterday", "a b c d"])
def test_another_form_says_nothing(text: str) -> None:
    assert read_preemption(text) is None
