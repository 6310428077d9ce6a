"""The whole job's speed and the length of its epochs, from the positions of its pods.

Speed, in this order: global steps of the pod watched longest. Batches of each worker: sync workers
step together, so one gives the job's; async workers' add up, and the sampled ones represent all.
Where positions and timestamps give no speed, printed ones: global steps per second are the job's,
samples per second a worker's.

Epochs: where the batch is the job's, or training is async, an epoch has the same steps at any
counts. Where each sync worker has a batch of its own, it has fewer the more workers there are.
Where the batch is unknown, either may hold: the first run's epoch is the reference, and speeds of
runs whose epochs differ are converted to it (until an epoch of the run is over, by the examples in
a step: printed samples per second over steps per second)."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

from optimus.jobs import BatchScope, TrainingMode
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.pod_progress import PodState, Rate
from optimus.progress.state import EpochClock, LogState

_SAME: Final = (0.8, 1.25)
"""Two lengths of an epoch within these factors are one, learned twice."""
_PRINTED_NEEDED: Final = 3


def job_rate(state: LogState, options: LogFormatOptions) -> Rate | None:
    """The job's steps per second at the run's counts, or ``None`` while that is not known."""
    pods, trainers = state.pods, _trainers(options, state.workers)
    by_steps = [rate for pod in pods if pod.step is not None and (rate := pod.meter.rate())]
    by_batches = [rate for pod in pods if pod.step is None and (rate := pod.meter.rate())]
    return (
        max(by_steps, key=lambda rate: rate.seconds, default=None)
        or _of_workers(by_batches, trainers, options.mode)
        or _printed_rate(state, options, trainers)
    )


def _printed_rate(state: LogState, options: LogFormatOptions, trainers: int) -> Rate | None:
    for pod in state.pods:
        rate = _median_rate(pod, pod.steps_per_second, 1.0)
        if rate is not None:
            return rate
    if options.batch is None:
        return None
    batch = float(options.batch.size)
    if options.batch.scope is BatchScope.JOB and options.mode is TrainingMode.SYNC:
        batch /= max(trainers, 1)
    rates = (_median_rate(pod, pod.samples_per_second, batch) for pod in state.pods)
    return _of_workers([rate for rate in rates if rate is not None], trainers, options.mode)


def _of_workers(rates: Sequence[Rate], trainers: int, mode: TrainingMode) -> Rate | None:
    """The job's rate from its workers'."""
    if not rates or mode is TrainingMode.SYNC:
        return max(rates, key=lambda rate: rate.seconds, default=None)
    mean = fmean(rate.steps_per_second for rate in rates)
    return Rate(mean * trainers, min(rate.seconds for rate in rates))


def _median_rate(pod: PodState, printed: Sequence[float], unit: float) -> Rate | None:
    if len(printed) < _PRINTED_NEEDED or pod.read_until is None or pod.speeds_since is None:
        return None
    value = median(printed[1:])  # the first is warm-up
    seconds = pod.read_until - pod.speeds_since
    return Rate(value / unit, seconds) if value > 0 and seconds > 0 else None


def steps_per_epoch(state: LogState, options: LogFormatOptions) -> float | None:
    """The job's steps in an epoch; at the run's counts where they shrink with workers."""
    learned = _learned(state, options)
    if _steps_shrink_with_workers(options):
        return learned or state.steps_per_epoch or options.steps_per_epoch
    return options.steps_per_epoch or state.reference_steps or learned or state.steps_per_epoch


def steps_give_epochs(state: LogState, options: LogFormatOptions) -> bool:
    """Whether global steps divided by the steps of an epoch are epochs, over all runs."""
    if _steps_shrink_with_workers(options):
        return False
    return not _steps_may_shrink(options) or state.reference_workers in (None, state.workers)


def step_unit(state: LogState, options: LogFormatOptions) -> float | None:
    """The factor that converts the run's steps to the first run's; ``None`` while unknown."""
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
    """At the end of a run, keep of its epoch length what holds for the next, with ``workers``."""
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
    """Whether a step of more workers covers more examples, so that an epoch has fewer steps."""
    per_worker = options.batch is not None and options.batch.scope is BatchScope.WORKER
    return per_worker and options.mode is TrainingMode.SYNC


def _steps_may_shrink(options: LogFormatOptions) -> bool:
    """Whether neither the batch of sync workers nor the length of an epoch is known."""
    unknown = options.batch is None and options.steps_per_epoch is None
    return unknown and options.mode is TrainingMode.SYNC


def _trainers(options: LogFormatOptions, workers: int) -> int:
    return workers + options.chiefs


def _lead(state: LogState) -> PodState | None:
    return next((pod for pod in state.pods if pod.name == state.lead), None)


def _learned(state: LogState, options: LogFormatOptions) -> float | None:
    """Steps in an epoch as the run shows: by the epoch clock, or from one worker's batches.

    Those of sync workers are the job's steps, those of async workers add up."""
    known, lead = state.clock.steps_per_epoch, _lead(state)
    if known or lead is None or lead.batches is None or lead.step is not None:
        return known
    sync = options.mode is TrainingMode.SYNC
    return lead.batches if sync else lead.batches * _trainers(options, state.workers)


def _examples_per_step(state: LogState, options: LogFormatOptions) -> float | None:
    """Examples in one step of all sync workers, from the lead's printed and measured speeds."""
    lead = _lead(state)
    rate = None if lead is None else lead.meter.rate()
    if lead is None or rate is None or len(lead.samples_per_second) < _PRINTED_NEEDED:
        return None
    printed = median(lead.samples_per_second[1:])
    return printed / rate.steps_per_second * _trainers(options, state.workers)
