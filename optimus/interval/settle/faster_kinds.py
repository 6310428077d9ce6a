"""Move jobs whose counts are fixed to faster kinds of nodes that are free.

All others have what they are to have. Of the moves that are expected to save more than their
restart, the one that saves most by the objective is made first; what it leaves is free for the
next.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import NamedTuple

from optimus.interval.classify import Classified, Eligibility
from optimus.interval.node_kinds import SPREAD, OnFastestKind, SpeedByKind
from optimus.interval.settle.undecided import Undecided
from optimus.interval.worth import gain_elsewhere
from optimus.jobs import Binding
from optimus.models.speed.model import SpeedModel
from optimus.placement.first_kind import has_fixed_counts


class Move(NamedTuple):
    """A job that is faster on another kind of nodes than on the one where it is slowest now."""

    job: Classified
    here: str
    kind: str
    times: float
    """How many times as fast it is expected to be."""
    worth: float
    """What it saves beyond its price, by the objective."""

    @property
    def shape(self) -> tuple[object, ...]:
        """Equal for jobs that fit on the same nodes."""
        job = self.job.job
        return self.kind, job.ps, job.worker, job.fixed, job.counts


def moves_to_faster_kinds(undecided: Undecided, jobs: Iterable[Classified]) -> Iterator[Move]:
    """The moves that are made, each on the plan; no job is moved twice."""
    plan = undecided.plan
    if not isinstance(plan.rule, OnFastestKind):
        return
    label = plan.rule.label
    wanted = [move for job in jobs for move in _that_pay(undecided, plan.rule, job)]
    wanted.sort(key=lambda move: (-move.worth, move.job.job.uid, move.kind))
    full = dict[tuple[object, ...], str]()
    """What did not fit on which kind."""

    def is_made(move: Move) -> bool:
        job = move.job.job
        if move.shape in full:
            return False
        refusal = plan.move(job.bound_to(Binding(label, move.kind)), job.counts)
        if refusal is not None:
            full[move.shape] = move.kind
        return refusal is None

    while (made := next(filter(is_made, wanted), None)) is not None:
        yield made
        wanted = [move for move in wanted if move.job is not made.job]
        full = {shape: kind for shape, kind in full.items() if kind != made.here}


def _that_pay(undecided: Undecided, rule: OnFastestKind, job: Classified) -> Iterator[Move]:
    of, candidate = job.job, job.candidate
    if candidate is None or job.eligibility is not Eligibility.RESIZABLE:
        return
    if not has_fixed_counts(of) or job.forced or job.capped or job.cooling:
        return
    expected, nodes = rule.expected[of.uid], undecided.plan.nodes_of_workers(of.uid)
    kinds = {node.labels.get(rule.label, "") for node in nodes}
    if not kinds or not kinds <= expected.keys():
        return
    here = min(kinds, key=lambda kind: expected[kind])
    forecast, spread = candidate.forecast, SPREAD
    if isinstance(forecast.speed, SpeedByKind) and not isinstance(forecast.speed, SpeedModel):
        forecast, spread = replace(forecast, speed=forecast.speed.on(here)), 0.0
    seconds, least = (
        forecast.at(of.counts),
        undecided.config.least_gain_fraction(is_expected=job.is_expected),
    )
    for kind in rule.kinds[of.uid]:
        log_ratio = expected[here] - expected[kind]
        gain = gain_elsewhere(
            forecast, of.counts, (log_ratio, spread), job.price_seconds, job.age_seconds
        )
        if log_ratio < 0 and gain > least:
            then = seconds * math.exp(log_ratio) + job.price_seconds
            yield Move(job, here, kind, math.exp(-log_ratio), job.cost(seconds) - job.cost(then))
