"""Growth: how far a job may grow before a measured speed confirms that larger counts help.

A forecast beyond the counts that were measured is a guess, and a log can say anything.
1. The job's own counts are those that its user set. Larger counts at which it was measured to be
   faster than at all smaller ones are *confirmed*.
2. It gets at most twice the confirmed PSs and workers, or as many as a profiling run may have where
   that is more: by doublings alone a small job would restart too often.
3. Where it was measured at twice the confirmed counts and was no faster, it gets no more than that.
4. Where it runs at more than the confirmed counts and is no faster, it goes back to these, or to
   between these and twice as many where it has more than that.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from optimus.jobs import CountBounds, Counts, Job
from optimus.models.forecast import batch_rule, known_samples
from optimus.progress.types import TrainingProgress

_REACH: Final = 2


@dataclass(frozen=True, slots=True)
class GrowthLimit:
    """``confirmed`` counts, and the ``most`` that the job may get.

    ``times``: its speed is so many times that at the confirmed counts, where it has more than these
    and was measured to be no faster; else ``None``."""

    confirmed: Counts
    most: Counts
    times: float | None = None

    def __str__(self) -> str:
        return f"before it is measured to be faster with more than {self.confirmed}"

    def within(self, bounds: CountBounds) -> CountBounds:
        """The bounds of a job, and no more than this."""
        return bounds.below(self.most)

    def returning(self, bounds: CountBounds) -> CountBounds:
        """The bounds within which it gives back what brings nothing: never below the confirmed
        counts, whatever a fitted speed says of fewer."""
        least, within = bounds.clamp(self.confirmed), self.within(bounds)
        return replace(within, min_ps=least.ps, min_workers=least.workers)


class _Measured(NamedTuple):
    """The speed of a job at these counts, on this kind of node."""

    counts: Counts
    kind: str
    rate: float


@dataclass(frozen=True, slots=True)
class GrowthRule:
    """``few``: PSs, and workers, that a job may get before it is measured at larger counts.
    ``least_gain_fraction``: what is faster by less is no faster."""

    few: int
    least_gain_fraction: float

    def limit(self, job: Job, own: Counts | None, progress: TrainingProgress) -> GrowthLimit:
        """Return how far a job may grow; ``own`` are the counts that its user set, if known."""
        confirmed, no_faster = self._confirmed(job, own or job.counts, progress)
        twice = twice_as_many(confirmed, job.bounds)
        if job.counts in no_faster and _is_within(confirmed, job.counts):
            is_within = _is_within(job.counts, twice)
            return GrowthLimit(confirmed, confirmed if is_within else twice, no_faster[job.counts])
        is_slower = any(_is_within(_bounded(twice, job), each) for each in no_faster)
        # Without PSs the next server makes the exchange many times dearer: one doubling at a time.
        few = 0 if is_slower or job.bounds.shares else self.few
        ps, workers = map(max, twice, (few, few), job.counts)
        return GrowthLimit(confirmed, Counts(ps, workers))

    def _confirmed(
        self, job: Job, own: Counts, progress: TrainingProgress
    ) -> tuple[Counts, dict[Counts, float]]:
        """The confirmed counts, and larger ones than its own at which it was no faster, with how
        many times as fast it was there."""
        confirmed, no_faster, best = own, dict[Counts, float](), dict[str, float]()
        for each in sorted(_measured(job, progress), key=_size):
            known = best.get(each.kind)
            if _is_within(each.counts, own):
                best[each.kind] = max(each.rate, known or 0.0)
            elif known is None or each.rate > (1 + self.least_gain_fraction) * known:
                # What it was measured with first is compared with nothing.
                if known is not None or not best:
                    confirmed = Counts(*map(max, confirmed, each.counts))
                best[each.kind] = each.rate
            else:
                no_faster[each.counts] = each.rate / known
        return confirmed, no_faster


def twice_as_many(counts: Counts, bounds: CountBounds) -> Counts:
    """Twice the PSs, and twice the workers and what trains beside them."""
    return Counts(_REACH * counts.ps, _REACH * counts.workers + bounds.leads)


def _measured(job: Job, progress: TrainingProgress) -> Iterator[_Measured]:
    """Its own samples, and those of earlier runs of its workload."""
    samples = known_samples(job, progress)
    speeds = samples.steps_per_second.tolist()
    # Where every sync worker has a batch of its own, a step covers more examples.
    per_worker, _ = batch_rule(job, progress)
    for counts, kind, speed in zip(samples.counts, samples.kinds, speeds, strict=True):
        yield _Measured(counts, kind, speed * counts.workers if per_worker else speed)


def _size(each: _Measured) -> tuple[int, Counts, str]:
    return sum(each.counts), each.counts, each.kind


def _is_within(counts: Counts, most: Counts) -> bool:
    return counts.ps <= most.ps and counts.workers <= most.workers


def _bounded(counts: Counts, job: Job) -> Counts:
    """At most as many as the job may have."""
    return Counts(*map(min, counts, job.bounds.clamp(counts)))
