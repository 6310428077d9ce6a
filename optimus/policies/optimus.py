"""The allocation of Optimus (EuroSys 2018, section 4.1), with the repairs that its text calls for.

Every candidate starts at its minimum. Jobs with a deadline, the earliest first, get the least
counts that meet it. Then, again and again, the job whose next step saves the most remaining time
per dominant share of the cluster gets it, until nothing fits or nothing helps. Apart from the
published rule (module ``optimus_paper``): the gain is per share and not per amount, so that a GPU
and a core compare; one PS and one worker together are a step of their own, and where none of the
three helps the job looks further ahead; a task that does not fit ends only that kind of step of
that job; a step that saves less than a small fraction of the remaining time is not taken.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import ClassVar

import numpy as np

from optimus.allocation import Allocation, AllocationProblem, Candidate, PolicyTraits
from optimus.allocation.earliest_deadline import meet_deadlines
from optimus.allocation.fairness import Objectives
from optimus.allocation.greedy import (
    NO_STEP,
    Baseline,
    Growth,
    GrowthState,
    Mask,
    Steps,
    start_at_minimum,
)
from optimus.allocation.problem import LEAST_SHARE, Counted, RemainingSeconds, Seconds, fits
from optimus.jobs import Counts

# Ties go to the worker: it is what computes.
_NEAREST = ((0, 1), (1, 0), (1, 1))
_NEAREST_PS, _NEAREST_WORKERS = np.array(_NEAREST, dtype=np.int64).T[:, :, None]
"""The same as columns of shape (3, 1)."""

_MANY_SECONDS = 1e300


@dataclass(frozen=True, slots=True)
class OptimusPolicy:
    """Greedy by remaining seconds saved per dominant share of the cluster."""

    name: ClassVar[str] = "optimus"
    traits: ClassVar[PolicyTraits] = PolicyTraits(
        placed_by="theorem1", weighs_restarts=True, weighs_jobs=True
    )

    min_gain_fraction: float = 0.005
    """A step that saves less than this fraction of the job's remaining time is not taken. Unit:
    none. Predictions are off by several percent, so that smaller gains are noise; stopping at 1 %
    costs about 1 % of the speed. Where forecasts are known to be exact, 0 is right."""

    look_ahead: int = 8
    """Where no next task helps, up to this many more PSs and workers together are looked at, and
    the block that saves most per share is one step. Default: wider than any plateau seen in
    measured speeds; 0 looks no further than the next tasks."""

    def allocate(self, problem: AllocationProblem) -> Allocation:
        """Counts for every candidate whose minimum fits, whatever the candidates' order."""
        baseline, met = meet_deadlines(start_at_minimum(problem))
        given = [each.objective for each in baseline.admitted]
        objectives = Objectives.of(given) if any(given) else None
        blocks = _blocks(self.look_ahead)
        rule = _GainPerShare(baseline.seconds(), self.min_gain_fraction, blocks, objectives)
        growth = baseline.grow(rule)
        return Allocation(baseline.counts_at(growth), _Reasons(baseline, growth, rule, met))


def _blocks(look_ahead: int) -> Counted:
    """Every further block of PSs and workers to look at, the smallest first; shape (blocks, 2)."""
    blocks = {*product(range(look_ahead + 1), repeat=2)} - {(0, 0), *_NEAREST}
    in_order = sorted(blocks, key=lambda block: (max(block), sum(block), block))
    return np.array(in_order, dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True, slots=True, eq=False)
class _GainPerShare:
    """The step rule: of the nearest steps the best, else the best block further ahead."""

    seconds: RemainingSeconds
    min_gain_fraction: float
    blocks: Counted
    objectives: Objectives | None = None

    def next_steps(self, state: GrowthState) -> Steps:
        """Gains are seconds saved per dominant share, or what these are worth."""
        now = self.seconds(state.rows, state.ps, state.workers)
        saved = self.saved(state, now, _NEAREST_PS, _NEAREST_WORKERS)
        allowed = state.within_bounds(_NEAREST_PS, _NEAREST_WORKERS)
        allowed &= np.stack([state.fits(*each) for each in _NEAREST])
        shares = np.maximum(np.stack([state.share(*each) for each in _NEAREST]), LEAST_SHARE)
        worth = self.worth(state.rows, now, saved)
        gains = np.where(self.worthwhile(now, saved) & allowed, worth / shares, NO_STEP)
        gain = gains.max(axis=0)
        # The first of the best; argmax over rows of arrays takes ten times as long.
        kind = np.where(gains[0] == gain, 0, np.where(gains[1] == gain, 1, 2))
        steps = Steps(gain, _NEAREST_PS[kind, 0], _NEAREST_WORKERS[kind, 0])
        stuck = np.flatnonzero((gain == NO_STEP) & (allowed[0] | allowed[1]))
        if len(stuck) and len(self.blocks):
            self._look_ahead(state, now, stuck, steps)
        return steps

    def worthwhile(self, now: Seconds, saved: Seconds, steps: int | Counted = 1) -> Mask:
        """Return whether the saving is more than noise, by the step."""
        least = self.min_gain_fraction * np.minimum(now, _MANY_SECONDS) * steps
        return np.asarray((saved > least) | (saved == np.inf))

    def worth(self, rows: Counted, now: Seconds, saved: Seconds) -> Seconds:
        """Return what saving so many seconds is worth by the jobs' objectives."""
        return saved if self.objectives is None else self.objectives.worth(rows, now, saved)

    def saved(
        self, state: GrowthState, now: Seconds, more_ps: Counted, more_workers: Counted
    ) -> Seconds:
        """Seconds saved by so many more, broadcast against the rows."""
        after = self.seconds(state.rows, state.ps + more_ps, state.workers + more_workers)
        return _difference(now, after)

    def _look_ahead(self, state: GrowthState, now: Seconds, stuck: Counted, steps: Steps) -> None:
        """Give the rows that are stuck the best block further ahead, if there is one."""
        more_ps, more_workers = self.blocks[:, 0], self.blocks[:, 1]
        saved, good = self._further(state, now, stuck)
        hopeful = np.flatnonzero(good.any(axis=1))
        if len(hopeful) == 0:
            return
        stuck, saved, good = stuck[hopeful], saved[hopeful], good[hopeful]
        cost = state.some(stuck).cost(more_ps, more_workers)
        good &= fits(cost, state.free) & state.some(stuck).within_quotas(more_ps, more_workers)
        shares = np.maximum(state.jobs.demands.shares(cost), LEAST_SHARE)
        worth = self.worth(state.rows[stuck, None], now[stuck, None], saved)
        gains = np.where(good, worth / shares, NO_STEP)
        best = gains.argmax(axis=1)
        steps.gain[stuck] = gains[np.arange(len(stuck)), best]
        steps.more_ps[stuck], steps.more_workers[stuck] = more_ps[best], more_workers[best]

    def _further(self, state: GrowthState, now: Seconds, stuck: Counted) -> tuple[Seconds, Mask]:
        """What each block saves each of these rows, and whether it is worth it, if it fits."""
        wide, at = state.some(stuck), now[stuck, None]
        more_ps, more_workers = self.blocks[:, 0], self.blocks[:, 1]
        saved = self.saved(wide, at, more_ps, more_workers)
        good = self.worthwhile(at, saved, np.maximum(more_ps, more_workers))
        return saved, good & wide.within_bounds(more_ps, more_workers)


def _difference(now: Seconds, after: Seconds) -> Seconds:
    # Both infinite (no speed at all): nothing is known to be saved.
    with np.errstate(invalid="ignore"):
        return np.asarray(np.where(now == after, 0.0, now - after))


class _Reasons(Mapping[str, str]):
    """Why each job grows no further, by UID; the sentences are made when the first is asked for."""

    def __init__(
        self,
        baseline: Baseline,
        growth: Growth,
        rule: _GainPerShare,
        met: Mapping[int, Counts],
    ) -> None:
        self.baseline, self.growth, self.rule, self.met = baseline, growth, rule, met

    def __getitem__(self, uid: str) -> str:
        return self._by_uid[uid]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_uid)

    def __len__(self) -> int:
        return len(self._by_uid)

    @cached_property
    def _by_uid(self) -> Mapping[str, str]:
        state = self.baseline.state(self.growth)
        now = self.rule.seconds(state.rows, state.ps, state.workers)
        allowed = state.within_bounds(_NEAREST_PS, _NEAREST_WORKERS)
        saved = self.rule.saved(state, now, _NEAREST_PS, _NEAREST_WORKERS)
        # Of the nearest steps the first that the job would take if it fitted.
        wanted = allowed & self.rule.worthwhile(now, saved)
        blocked = np.where(wanted.any(axis=0), wanted.argmax(axis=0), -1).tolist()
        bounded = set(np.flatnonzero(~allowed.any(axis=0)).tolist())
        return dict(self.baseline.reasons) | {
            each.job.uid: self._sentence(each, row, row in bounded, blocked[row])
            for row, each in enumerate(self.baseline.admitted)
        }

    def _sentence(self, candidate: Candidate, row: int, is_bounded: bool, blocked: int) -> str:
        counts = Counts(int(self.growth.ps[row]), int(self.growth.workers[row]))
        if row in self.met:
            return f"{counts} are the least that meet its deadline"
        if not candidate.may_grow:
            return f"its goal is met: {counts} is its minimum"
        if is_bounded and candidate.limited:
            return f"{counts} is the most {candidate.limited}"
        if is_bounded:
            bounds = candidate.job.bounds
            most = f"max-ps {bounds.max_ps or 'none'}, " if counts.ps else ""
            most += f"max-workers {bounds.max_workers or 'none'}"
            return f"{counts} is the most its bounds allow: {most}"
        if blocked >= 0:
            more_ps, more_workers = _NEAREST[blocked]
            names = [f"PS {counts.ps + 1}"] * more_ps
            names += [f"worker {counts.workers + 1}"] * more_workers
            return self._why_not(row, (more_ps, more_workers), " with ".join(names))
        least = self.rule.min_gain_fraction
        return f"more than {counts} would save less than {least:.1%} of its remaining time"

    def _why_not(self, row: int, more: tuple[int, int], tasks: str) -> str:
        """Return why the next tasks of a job do not fit: a quota, or the nodes."""
        demands, left = self.baseline.jobs.demands, self.growth.left
        if demands.quotas is not None and left is not None:
            taken = demands.quotas.cost(np.array([row]), *more)[0]
            why = demands.quotas.why_not(row, taken, left, tasks)
            if why is not None:
                return why
        cost = demands.ps[row] * more[0] + demands.workers[row] * more[1]
        lacking = demands.lacking(cost, self.growth.free)
        return f"{tasks} does not fit: too little {lacking} is left"
