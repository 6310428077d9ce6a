"""The whole job's speed, from what its pods' logs tell.

Global steps: of one pod, whichever was watched longest. Batches of each worker: sync workers tick
together, so one tells the job's; async workers' add up, and the sampled ones stand for all. Where
positions and timestamps do not give a speed, the speeds that the log prints do: global steps per
second are the job's, samples per second a worker's."""

from collections.abc import Sequence
from statistics import fmean, median
from typing import Final

from optimus.jobs import TrainingMode
from optimus.progress.options import LogFormatOptions
from optimus.progress.process_rate import Rate
from optimus.progress.state import PodState

_PRINTED_NEEDED: Final = 3


def job_rate(pods: Sequence[PodState], workers: int, rules: LogFormatOptions) -> Rate | None:
    """The job's steps per second at ``workers`` workers, or ``None`` while that is not known."""
    batch = rules.worker_batch(workers)
    return (
        _of_global_steps(pods)
        or _together(
            [_measured(pod) for pod in pods if pod.step is None],
            rules.trainers(workers),
            rules.mode,
        )
        or _printed_steps(pods)
        or _together(
            [_printed_samples(pod, batch) for pod in pods], rules.trainers(workers), rules.mode
        )
    )


def _of_global_steps(pods: Sequence[PodState]) -> Rate | None:
    rates = [
        rate for pod in pods if pod.step is not None and (rate := pod.meter.rate()) is not None
    ]
    return max(rates, key=lambda rate: rate.seconds, default=None)


def _measured(pod: PodState) -> Rate | None:
    return pod.meter.rate()


def _together(rates: Sequence[Rate | None], trainers: int, mode: TrainingMode) -> Rate | None:
    known = [rate for rate in rates if rate is not None]
    if not known:
        return None
    if mode is TrainingMode.SYNC:
        return max(known, key=lambda rate: rate.seconds)
    return Rate(
        fmean(rate.steps_per_second for rate in known) * trainers,
        min(rate.seconds for rate in known),
    )


def _printed_steps(pods: Sequence[PodState]) -> Rate | None:
    rates = (_median_rate(pod, pod.steps_per_second, 1.0) for pod in pods)
    return next((rate for rate in rates if rate is not None), None)


def _printed_samples(pod: PodState, batch: float | None) -> Rate | None:
    return _median_rate(pod, pod.samples_per_second, batch) if batch else None


def _median_rate(pod: PodState, printed: Sequence[float], unit: float) -> Rate | None:
    if len(printed) < _PRINTED_NEEDED or pod.read_until is None or pod.speeds_since is None:
        return None
    value = median(printed[1:])  # the first is warm-up
    seconds = pod.read_until - pod.speeds_since
    return Rate(value / unit, seconds) if value > 0 and seconds > 0 else None
