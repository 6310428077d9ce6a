"""The answers in sentences, for the command line and the page."""

import math
from collections.abc import Iterator, Sequence

from optimus.jobs import Counts
from optimus.models.forecast import TimeLeft
from optimus.resources import amounts_text
from optimus.times import clock, duration
from optimus.what_if.arrival import Arrival, Arriving
from optimus.what_if.counts import WhatIf

_MOST_NAMED = 4


def counts_sentences(answer: WhatIf) -> Iterator[str]:
    """What other counts would mean; nothing where that is not known."""
    if answer.then is None:
        return
    restart = f", {duration(answer.price_seconds)} for the restart included"
    if answer.saves_seconds >= 0:
        yield f"It saves {duration(answer.saves_seconds)}{restart}."
    else:
        yield f"It takes {duration(-answer.saves_seconds)} longer{restart}."
    if answer.why_not_moved:
        yield f"Optimus would not move it by itself: {answer.why_not_moved}."
    more = {name: amount for name, amount in answer.more.items() if amount > 0}
    less = {name: -amount for name, amount in answer.more.items() if amount < 0}
    changes = [f"{amounts_text(more)} more"] * bool(more) + [f"{amounts_text(less)} less"] * bool(
        less
    )
    if changes:
        yield f"It requests {', '.join(changes)}."
    if answer.by_quota:
        yield f"It would have to wait: {answer.refusal}."
    elif answer.fits is not None:
        place = "have a place for it" if answer.fits else "have no place for it as a whole"
        yield f"The nodes {place} now, beside all other jobs."
    if answer.expected:
        yield "Its speed at counts at which it was not measured is expected, not fitted."
    if not answer.allowed:
        asked = Counts(answer.then.ps, answer.then.workers)
        yield f"Its annotations optimus.dl/min-... and max-... do not allow {asked}."


def arrival_sentences(question: Arriving, answer: Arrival, like: str) -> Iterator[str]:
    """When the job starts and ends; ``like`` is the job by which its duration is known."""
    at = question.snapshot.at
    if answer.starts is None:
        yield f"It would wait: {answer.refusal}. No job with a known end frees enough capacity."
    elif answer.starts.median == 0 and not answer.refusal:
        yield "It would start at once."
    else:
        has = "has" if len(answer.waits_for) == 1 else "have"
        after = f", when {_named(answer.waits_for)} {has} ended" if answer.waits_for else ""
        yield f"It would start {_when(answer.starts, at)}{after}; now {answer.refusal}."
    if answer.shrinks:
        yield f"{', '.join(answer.shrinks)} would release capacity for it."
    if answer.counts != question.job.counts:
        yield f"The next interval would start it with {answer.counts}."
    if answer.ends is not None:
        yield f"It would end {_when(answer.ends, at)}, by what {like} shows."
    elif answer.starts is not None:
        hint = "--like JOB names a job that has trained the same model"
        why = f"{like} has no forecast" if like else hint
        yield f"When it would end is not known: {why}."
    if answer.without_end:
        yield f"Jobs without a known end do not count: {_named(answer.without_end)}."
    if answer.ends is not None or answer.waits_for:
        yield "Ranges have a probability of 80 %."
    if answer.waits_for:
        yield "Running jobs are assumed to keep their counts."


def _named(names: Sequence[str]) -> str:
    further = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {further} more" if further > 0 else "")


def _when(left: TimeLeft, at: float) -> str:
    early, median, late = (
        clock(at + seconds, at) if math.isfinite(seconds) else "not known"
        for seconds in (left.low, left.median, left.high)
    )
    return f"at {median} UTC ({early} to {late}), in {duration(left.median)}"
