"""The answers in sentences, for the command line and the page."""

from collections.abc import Iterator
from dataclasses import replace

from optimus.resources import amounts_text
from optimus.times import duration
from optimus.what_if.advice import LIKELY, Advice, Alternative
from optimus.what_if.counts import WhatIf


def advice_sentences(advice: Advice) -> Iterator[str]:
    """Return what other counts would do for a job that nobody manages, and why no end is known."""
    if advice.no_end:
        yield f"Its end is not known: {advice.no_end}."
    if not advice.is_compared:
        yield (
            "Other sizes are not compared: without optimus.dl/global-batch-size each worker's batch"
            " is fixed, and another size changes what the job learns."
        )
        return
    for found, what in ((advice.sooner, "no more capacity"), (advice.larger, "more capacity")):
        if found is not None:
            fast = found.speed_up
            yield (
                f"{_size(advice, found)}, with {what}: {fast.median:.2g} times as fast (80 %: "
                f"{fast.low:.2g} to {fast.high:.2g}), sooner with {100 * found.chance:.0f} %."
            )
    if advice.leaner is not None:
        freed = amounts_text({advice.resource: advice.freed})
        yield f"{_size(advice, advice.leaner)}: at most 5 % later, and frees {freed}."
    if advice.sooner is advice.larger is advice.leaner is None:
        yield f"No other size is better with a probability of {100 * LIKELY:.0f} %."


def _size(advice: Advice, found: Alternative) -> str:
    return replace(advice.job, counts=found.counts).size


def counts_sentences(answer: WhatIf) -> Iterator[str]:
    """Return what other counts would mean; nothing where that is not known."""
    if answer.then is None:
        return
    restart = f", {duration(answer.price_seconds)} for the restart included"
    if answer.then == answer.now:
        yield "It has these counts now."
    elif answer.saves_seconds >= 0:
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
