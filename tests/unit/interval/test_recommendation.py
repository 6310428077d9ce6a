"""What a user reads of a recommendation."""

from dataclasses import replace

import pytest

from optimus.interval import Action
from optimus.interval.classify import Recommendation
from optimus.jobs import NO_COUNTS, Counts

GROWS = Recommendation(Counts(1, 2), Counts(2, 4), Action.GROW, "it saves time")
WITH_TIMES = replace(GROWS, seconds_now=900.4, seconds_then=500.6, price_seconds=60.0)
TIMES = "expected 501 s to its goal instead of 900 s, after 60 s for the rescale"
COUNTS = "recommended: 2 PS + 4 workers instead of 1 PS + 2 workers"


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (GROWS, f"{COUNTS}; it saves time"),
        (WITH_TIMES, f"{COUNTS}; {TIMES}; it saves time"),
        (
            replace(WITH_TIMES, expected=True),
            f"{COUNTS}; {TIMES}; this is expected, not fitted; it saves time",
        ),
        (replace(WITH_TIMES, reason=""), f"{COUNTS}; {TIMES}"),
        (replace(GROWS, seconds_now=900.0), f"{COUNTS}; it saves time"),
        (
            replace(GROWS, action=Action.KEEP, reason="nothing is free"),
            "recommended: 1 PS + 2 workers, as now; nothing is free",
        ),
        (
            replace(GROWS, action=Action.WAIT, reason="it waits"),
            "recommended: 1 PS + 2 workers, as now; it waits",
        ),
        (
            replace(GROWS, action=Action.SUSPEND, counts=NO_COUNTS, reason="its goal is met"),
            "recommended: to suspend it; its goal is met",
        ),
    ],
)
def test_it_says_the_counts_what_they_bring_and_why(found: Recommendation, text: str) -> None:
    assert str(found) == text
