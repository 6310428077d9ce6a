"""The memory of a job's logs: plain data, bounded, stored in the job's profile.

Where there are too many losses, neighbours among the old ones are averaged, within an epoch first.

Speed comes from the global steps of the pod watched longest, else from batches: those of one sync
worker are the job's, those of async workers add up, and the sampled ones represent all.

Epochs: where the batch is the job's, or training is async, an epoch has the same steps at any
counts. Where each sync worker has a batch of its own, it has fewer the more workers there are.
Where the batch is unknown, either may hold: the first run's epoch is the reference, and speeds of
runs whose epochs differ are converted to it (until an epoch of the run is over, by the examples in
a step: printed samples per second over steps per second).

Only the log as a whole shows what a number counts. A step beside an epoch counts within it where it
begins again with the next one (``is_loose`` of a line). Values beside an epoch alone are those of
the whole epoch where the log has one such line for each (``end_is_doubtful``). Until it shows, less
progress is taken than there may be; then what was taken is put right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean, median
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from optimus.jobs import BatchScope, TrainingMode
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine
from optimus.progress.pod_progress import PodState, Rate
from optimus.progress.types import Declared, LossPoint, RunStart, SpeedSample

_SLACK_EPOCHS: Final = 1e-6
"""An epoch that is step / steps per epoch may miss a whole number by rounding."""

_SAME: Final = (0.8, 1.25)
"""Two lengths of an epoch within these factors are one, learned twice."""
_PRINTED_NEEDED: Final = 3
_NEAR: Final = 2.0
"""Times the distance of two lines: a count that goes on over epochs is not further than that."""
_MOST_NAMES: Final = 8
CountKind = Literal["", "epoch", "run"]


@dataclass(slots=True)
class EpochClock:
    """The global steps at which the printed epoch number changed."""

    epoch: int | None = None
    first: tuple[float, int] | None = None
    """The first change, as (epochs done, step); ``last`` is the latest."""
    last: tuple[float, int] | None = None
    said: float | None = None
    """The steps of an epoch, where lines have both the step and the epochs done."""

    def take(self, epoch: int | None, step: int, done: float | None) -> None:
        """Record a step, in an epoch or after the epochs done that lines beside it say."""
        if done is not None:
            self.first = self.first or (done, step)
            self.last = (done, step) if done >= self.first[0] + 0.5 else self.last
        elif epoch is not None:
            is_later = self.last is None or epoch > self.last[0]
            if self.epoch is not None and epoch > self.epoch and is_later:
                self.last = (epoch, step)
                self.first = self.first or self.last
            self.epoch = epoch

    @property
    def steps_per_epoch(self) -> float | None:
        """Steps of the job from one change to the next; after one change, those since step 0."""
        if self.said is not None:
            return self.said
        if self.first is None or self.last is None or self.last[0] <= 0:
            return None
        if self.last[1] <= self.first[1]:
            return max(self.last[1] - 1, 1) / self.last[0]
        return (self.last[1] - self.first[1]) / (self.last[0] - self.first[0])


@dataclass(slots=True)
class MetricState:
    """One metric beside the loss, as ``MetricSeries`` has it."""

    name: str
    evaluated: bool
    rises: bool | None
    points: list[LossPoint] = field(default_factory=list)


@dataclass(slots=True)
class LogState:
    """All that is remembered of one job's logs."""

    run: str | None = None
    """One incarnation of the job's pods, at ``ps`` and ``workers``."""
    former_run: str | None = None
    ps: int = 1
    workers: int = 1
    lead: str | None = None
    """The pod whose losses count."""
    pods: list[PodState] = field(default_factory=list)
    losses: list[LossPoint] = field(default_factory=list)
    samples: list[SpeedSample] = field(default_factory=list)
    clock: EpochClock = field(default_factory=EpochClock)
    count_kind: CountKind = ""
    """Steps beside an epoch count those of the epoch or of the run; empty until that shows."""
    one_each: bool = False
    """A line with an epoch alone ends it, as a run has shown."""
    first_epoch: int = 1
    """The number that the log gives to the first epoch: 1 until a 0 is seen."""
    epoch_offset: int = 0
    """The epochs before a restart at which those of the log began again."""
    numbered_run: str | None = None
    """The run whose epochs are known to be counted with that offset."""
    step: int | None = None
    epoch: float | None = None
    counts_steps: bool = True
    """The lead's positions are steps, or batches that are."""
    steps_per_epoch: float | None = None
    """The last known number; where positions are no steps, of what they count."""
    reference_steps: float | None = None
    """The steps in an epoch of the first run, with ``reference_workers`` and ``reference_examples``
    in a step, if runs may differ in the size of a step."""
    reference_workers: int | None = None
    reference_examples: float | None = None
    checkpoint_step: int | None = None
    checkpoint_at: float | None = None
    checkpoint_since: float | None = None
    checkpoint_pod: str | None = None
    """The pod whose log has the last checkpoint."""
    step_before: int | None = None
    """The step before ``step``, as the lead's lines have them."""
    stopped_at: int | None = None
    """The step at which the run before stopped; ``stopped_at_risk``: the steps that it had printed
    since its last checkpoint, but for its last line."""
    stopped_at_risk: int = 0
    saves_every: int | None = None
    """Steps between the last two checkpoints."""
    run_start: RunStart | None = None
    trained_seconds: float = 0.0
    bad_losses: int = 0
    """Losses in a row that are no finite number."""
    lossless: int = 0
    """Lines of progress without a loss; their values are named in ``metrics``."""
    unread_lines: int = 0
    """Lines that say nothing about the training."""
    unclear: str = ""
    """A number that was not understood, on the first of ``unclear_lines`` in a row."""
    unclear_lines: int = 0
    metrics: list[str] = field(default_factory=list)
    series: list[MetricState] = field(default_factory=list)
    """The metrics beside the loss, bounded in number and length."""
    declared: Declared = field(default_factory=Declared)
    loss_rank: int | None = None
    """The rank of the losses that are kept; lines with a worse one do not count."""
    epoch_line_is_mean: bool = False
    """The line at an epoch's end gives the whole epoch's mean."""
    learning_rate: float | None = None
    """The last one that the log announced on a line of its own."""
    node_kind: str | None = None
    """The kind of the run's workers' nodes; ``None`` before it was determined."""
    servers: int = 0
    """The number of nodes on which the run trains; 0: not known."""

    def pod_named(self, name: str | None) -> PodState | None:
        """The pod's part of this, where its log was read in this run."""
        return next((pod for pod in self.pods if pod.name == name), None)

    def copied(self) -> dict[str, Any]:
        """Its fields by name, which later lines do not change."""
        found = {name: getattr(self, name) for name in LogState.__slots__}
        return found | {
            "pods": [pod.copied() for pod in self.pods],
            "losses": [*self.losses],
            "samples": [*self.samples],
            "clock": replace(self.clock),
            "metrics": [*self.metrics],
            "series": [replace(each, points=[*each.points]) for each in self.series],
        }


def epoch_index(point: LossPoint) -> int | None:
    """The epoch a point belongs to, counted from 0: a point at 3.0 closes epoch 2."""
    return None if point.epoch is None else max(math.ceil(point.epoch - _SLACK_EPOCHS) - 1, 0)


def epoch_indexes(epochs: NDArray[np.float64]) -> NDArray[np.float64]:
    """The indexes of many epochs at once."""
    return np.asarray(np.maximum(np.ceil(epochs - _SLACK_EPOCHS) - 1, 0.0), dtype=np.float64)


def add_loss(
    points: list[LossPoint],
    point: LossPoint,
    *,
    replace_last: bool = False,
    cumulative: bool = False,
) -> None:
    """Append a point; ``cumulative``: it is the mean since its epoch began and replaces that."""
    index = epoch_index(point)
    if replace_last and points and _place(points[-1]) == _place(point):
        points.pop()
    while cumulative and index is not None and points and epoch_index(points[-1]) == index:
        points.pop()
    points.append(point)


def _place(point: LossPoint) -> tuple[float | None, int | None]:
    return (None if point.step is not None else point.epoch), point.step


def add_epoch_mean(points: list[LossPoint], point: LossPoint, *, of_all: bool) -> None:
    """Append an epoch's mean from its last line.

    With ``of_all`` the mean is of the whole epoch and replaces the epoch's points; otherwise it
    only closes an epoch that has points."""
    last = points[-1] if points else None
    if of_all:
        add_loss(points, point, cumulative=True)
    elif last is not None and epoch_index(last) == epoch_index(point):
        points[-1] = replace(last, epoch=point.epoch, step=point.step)
    else:
        points.append(point)


def add_metric(
    points: list[LossPoint], point: LossPoint, *, is_mean: bool, closes: bool, limit: int
) -> None:
    """Append a metric's value: one for each epoch, the mean of its values.

    With ``is_mean`` the value is the mean since the epoch began and replaces the epoch's; with
    ``closes`` it is of the epoch's last line and adds nothing to what the epoch has. Without
    epochs each value is kept, at most ``limit``."""
    index = epoch_index(point)
    if index is None or not points or epoch_index(points[-1]) != index:
        points.append(point)
    elif is_mean:
        points[-1] = point
    elif not closes:
        points[-1] = _mean(points[-1], point)
    if len(points) > limit:
        points[:] = thin_losses(points, limit * 3 // 4)


def drop_undone_losses(points: list[LossPoint], *, step: int | None, epoch: float | None) -> None:
    """Remove the points after the step (or else epoch) that training was restored to."""
    while points and _is_after(points[-1], step, epoch):
        points.pop()


def _is_after(point: LossPoint, step: int | None, epoch: float | None) -> bool:
    if step is not None and point.step is not None:
        return point.step > step
    return epoch is not None and point.epoch is not None and point.epoch > epoch + _SLACK_EPOCHS


def thin_losses(points: list[LossPoint], limit: int) -> list[LossPoint]:
    """Return at most ``limit`` points, with neighbours averaged but in the newest fifth."""
    while len(points) > limit:
        newest = len(points) - limit // 5
        merged = _merge_pairs(points[:newest], within_epochs=True)
        if len(merged) > newest * 3 // 4:
            merged = _merge_pairs(points[:newest], within_epochs=False)
        points = merged + points[newest:]
    return points


def _merge_pairs(points: list[LossPoint], *, within_epochs: bool) -> list[LossPoint]:
    merged: list[LossPoint] = []
    mergeable = False
    for point in points:
        same_epoch = bool(merged) and epoch_index(merged[-1]) == epoch_index(point)
        if mergeable and (same_epoch or not within_epochs):
            merged[-1] = _mean(merged[-1], point)
            mergeable = False
        else:
            merged.append(point)
            mergeable = True
    return merged


def _mean(first: LossPoint, second: LossPoint) -> LossPoint:
    weight = first.weight + second.weight
    loss = (first.loss * first.weight + second.loss * second.weight) / weight
    return LossPoint(loss, second.epoch, second.step, weight, second.learning_rate)


def job_rate(state: LogState, options: LogFormatOptions) -> Rate | None:
    """The job's steps per second at the run's counts, or ``None`` while that is not known."""
    pods, trainers = state.pods, _trainers(options, state.workers)
    by_steps = [rate for pod in pods if pod.step is not None and (rate := pod.meter.rate())]
    by_batches = [rate for pod in pods if pod.step is None and (rate := pod.meter.rate())]
    return max(by_steps, key=lambda rate: rate.seconds, default=None) or _of_workers(
        by_batches, trainers, options.mode
    )


def _of_workers(rates: Sequence[Rate], trainers: int, mode: TrainingMode) -> Rate | None:
    """The job's rate from its workers'."""
    if not rates or mode is TrainingMode.SYNC:
        return max(rates, key=lambda rate: rate.seconds, default=None)
    mean = fmean(rate.steps_per_second for rate in rates)
    return Rate(mean * trainers, min(rate.seconds for rate in rates))


def steps_per_epoch(state: LogState, options: LogFormatOptions) -> float | None:
    """The job's steps in an epoch; at the run's counts where they shrink with workers."""
    return units_per_epoch(state, options) if state.counts_steps else options.steps_per_epoch


def units_per_epoch(state: LogState, options: LogFormatOptions) -> float | None:
    """Return what an epoch has of what positions count: steps, or else parts of an epoch."""
    learned = _learned(state, options)
    if _steps_shrink_with_workers(options):
        return learned or state.steps_per_epoch or options.steps_per_epoch
    return options.steps_per_epoch or state.reference_steps or learned or state.steps_per_epoch


def steps_give_epochs(state: LogState, options: LogFormatOptions) -> bool:
    """Return whether global steps divided by the steps of an epoch are epochs, over all runs."""
    if _steps_shrink_with_workers(options):
        return False
    return not _steps_may_shrink(options) or state.reference_workers in (None, state.workers)


def step_unit(state: LogState, options: LogFormatOptions) -> float | None:
    """The factor that converts the run's steps to the first run's; ``None`` while unknown.

    Where positions are no steps, it makes them the steps that the job says an epoch has."""
    if not state.counts_steps and state.clock.steps_per_epoch:
        return None  # the run's lines with steps are still to come
    if not state.counts_steps and options.steps_per_epoch:
        learned = _learned(state, options)
        return options.steps_per_epoch / learned if learned else None
    if not state.counts_steps and _steps_shrink_with_workers(options):
        return 1.0 / _trainers(options, state.workers)
    reference, same_workers = state.reference_steps, state.reference_workers == state.workers
    if not _steps_may_shrink(options) or reference is None or same_workers:
        return 1.0
    learned, examples = _learned(state, options), _examples_per_step(state, options)
    if learned is not None:
        factor = reference / learned
    elif examples is not None and state.reference_examples is not None:
        factor = examples / state.reference_examples
    else:
        return None
    return 1.0 if _SAME[0] < factor < _SAME[1] else factor


def keep_epoch_length(state: LogState, options: LogFormatOptions, workers: int) -> None:
    """Keep what holds of a run's epoch length for the next run, with ``workers``."""
    learned = _learned(state, options)
    shrink, may_shrink = _steps_shrink_with_workers(options), _steps_may_shrink(options)
    if may_shrink and state.reference_steps is None and learned is not None:
        state.reference_steps, state.reference_workers = learned, state.workers
        state.reference_examples = _examples_per_step(state, options)
    if workers != state.workers and (shrink or may_shrink):
        state.clock = EpochClock()
        if shrink and state.steps_per_epoch is not None:
            state.steps_per_epoch *= _trainers(options, state.workers) / _trainers(options, workers)
    state.clock.epoch = None


def _steps_shrink_with_workers(options: LogFormatOptions) -> bool:
    """Return whether a step of more workers covers more examples: an epoch has fewer steps."""
    per_worker = options.batch is not None and options.batch.scope is BatchScope.WORKER
    return per_worker and options.mode is TrainingMode.SYNC


def _steps_may_shrink(options: LogFormatOptions) -> bool:
    """Return whether neither the batch of sync workers nor the length of an epoch is known."""
    unknown = options.batch is None and options.steps_per_epoch is None
    return unknown and options.mode is TrainingMode.SYNC


def _trainers(options: LogFormatOptions, workers: int) -> int:
    return workers + options.chiefs


def _learned(state: LogState, options: LogFormatOptions) -> float | None:
    """Steps in an epoch as the run shows: by the epoch clock, or from one worker's batches.

    Those of sync workers are the job's steps, those of async workers add up."""
    known, lead = state.counts_steps and state.clock.steps_per_epoch, state.pod_named(state.lead)
    if known or lead is None or lead.batches is None or lead.step is not None:
        return known or None
    if options.mode is not TrainingMode.SYNC:
        return lead.batches * _trainers(options, state.workers)
    # A part of an epoch has the same examples at any number of workers, a step of theirs has not.
    shares = not lead.counts_steps and _steps_shrink_with_workers(options)
    return lead.batches / (_trainers(options, state.workers) if shares else 1)


def _examples_per_step(state: LogState, options: LogFormatOptions) -> float | None:
    """Examples in one step of all sync workers, from the lead's printed and measured speeds."""
    lead = state.pod_named(state.lead)
    rate = None if lead is None else lead.meter.rate()
    if lead is None or rate is None or len(lead.samples_per_second) < _PRINTED_NEEDED:
        return None
    printed = median(lead.samples_per_second[1:])
    return printed / rate.steps_per_second * _trainers(options, state.workers)


def below_header(pod: PodState, parsed: ParsedLine) -> None:
    """Give a step below the header of an epoch that epoch; one with a total is of the epoch."""
    parsed.epoch, parsed.epoch_as_printed = pod.header, False
    total = None if parsed.declared is None else parsed.declared.steps
    if total and pod.step is None:
        parsed.batch, parsed.batches = parsed.step, total
        parsed.step = parsed.declared = None


def settle_fraction(
    state: LogState, pod: PodState, parsed: ParsedLine, options: LogFormatOptions
) -> None:
    """Read a whole number of epochs as those done, where others of its form have a fraction."""
    if parsed.is_fraction:
        pod.fraction_form = parsed.form
    elif parsed.form == pod.fraction_form and parsed.epoch is not None and parsed.batch is None:
        done, parsed.epoch = parsed.epoch + state.first_epoch, None
        parsed.at_epochs_done(float(done), options.steps_per_epoch)


def settle_beside_steps(pod: PodState, parsed: ParsedLine) -> None:
    """Give a loss whose line counts otherwise than the log's steps, none of which has a loss on its
    line, the last step; a count that is that step is of the run."""
    if pod.step is None or pod.places_own or parsed.loss is None or parsed.step is not None:
        return
    if parsed.epoch is not None and parsed.batches and not parsed.is_loose:
        return  # it has a whole position of its own
    if parsed.batch == pod.step and parsed.batches:
        parsed.declared = Declared(steps=parsed.batches)
    parsed.step, parsed.is_below, parsed.is_loose = pod.step, True, False
    parsed.batch = parsed.batches = None
    parsed.epoch_ended = parsed.end_is_doubtful = False


def settle_count(state: LogState, pod: PodState, parsed: ParsedLine) -> None:
    """Decide what the loose count on a line counts, and make the line say so."""
    count = parsed.batch if parsed.step is None else parsed.step
    if parsed.epoch is None or count is None or not parsed.is_loose:
        return
    epoch = parsed.epoch + state.epoch_offset
    former = pod.count_epoch
    if former is not None and epoch > former:
        if not state.count_kind and not pod.gap:
            state.count_kind = _kind(pod, count, of_steps=parsed.step is not None)
            _put_right(state, pod, former, of_steps=parsed.step is not None)
        pod.full_count = pod.count if pod.count == pod.former_count else None
        pod.former_count, pod.count_distance = pod.count, 0
    elif former == epoch and count > pod.count:
        pod.count_distance = count - pod.count
    pod.count_epoch, pod.count = epoch, count
    if state.count_kind == "epoch" and parsed.step is not None:
        parsed.batch, parsed.step, parsed.batches = count, None, pod.full_count
        parsed.epoch_ended = count == pod.full_count
    elif state.count_kind == "run" and parsed.batch is not None:
        if parsed.batches:
            parsed.declared = (parsed.declared or Declared()).updated(
                Declared(steps=parsed.batches)
            )
        parsed.step, parsed.batch, parsed.batches = count, None, None
        parsed.epoch_ended = False


def _kind(pod: PodState, count: int, *, of_steps: bool) -> CountKind:
    if count <= pod.count:
        return "epoch"
    is_near = count <= pod.count + _NEAR * (pod.count_distance or pod.count)
    return "run" if of_steps or is_near else "epoch"


def _put_right(state: LogState, pod: PodState, former: int, *, of_steps: bool) -> None:
    """Restate the positions of the epoch before, which were taken for something else."""
    if state.lead != pod.name or (state.count_kind == "run") == of_steps:
        return
    for points in (state.losses, *(series.points for series in state.series)):
        count = 0.0
        for index, point in enumerate(points):
            if epoch_index(point) != former:
                continue
            if of_steps:
                done = min((point.step or 0) / max(pod.count, 1), 1.0)
                points[index] = replace(point, epoch=former + done, step=None)
            else:
                count += point.weight
                points[index] = replace(point, epoch=former + 0.5, step=round(count))
    if of_steps:
        pod.step, pod.epoch, pod.batch, pod.batches = None, former, pod.count, None
        pod.loss_by = "batch"
        pod.meter.restart()
        state.clock.epoch = state.clock.first = state.clock.last = None
    else:
        state.clock.epoch = former


def settle_end(state: LogState, pod: PodState, parsed: ParsedLine) -> None:
    """Decide whether a line with an epoch alone ends it."""
    former, is_same = pod.doubtful, pod.doubtful == parsed.epoch
    if former is None and pod.batch and pod.epoch == (parsed.epoch or 0) + state.epoch_offset:
        return  # other lines have counted its batches: it sums them up
    again = is_same and not parsed.values.keys().isdisjoint(pod.doubtful_names)
    is_copy = again and parsed.checksum == pod.doubtful_checksum
    if again and not is_copy:
        pod.within = True
    if not is_same:
        if former is not None and not (pod.within or state.one_each):
            state.one_each = True
            if parsed.epoch is not None and parsed.epoch > former:
                _end_former(state, pod, former + state.epoch_offset)
        pod.doubtful, pod.doubtful_names = parsed.epoch, ()
    new = [name for name in parsed.values if name not in pod.doubtful_names]
    pod.doubtful_names = (*pod.doubtful_names, *new)[:_MOST_NAMES]
    pod.doubtful_checksum = parsed.checksum
    if pod.within or not state.one_each:
        parsed.epoch_ended = False
        parsed.batch = pod.batch + (1 if again and not is_copy else 0) if is_same else 1
        parsed.counts_steps = pod.counts_steps and pod.batch > 0


def _end_former(state: LogState, pod: PodState, epoch: int) -> None:
    """The first line of all did end its epoch."""
    if state.lead != pod.name:
        return
    for points in (state.losses, *(series.points for series in state.series)):
        if points and epoch_index(points[-1]) == epoch:
            points[-1] = replace(points[-1], epoch=epoch + 1.0)
