"""How many steps an epoch has, and whether a step is the same amount of training in every run.

Where the batch is the job's, or training is async, an epoch has so many steps whatever the counts.
Where each sync worker has a batch of its own, it has the fewer the more workers there are. Where
the batch is unknown, both may be: what an epoch had at first is the measure then, and speeds of
runs whose epochs differ are converted to it (until an epoch of the run is over, by the examples in
a step: the samples per second that are printed over the steps per second)."""

from statistics import median
from typing import Final

from optimus.jobs import TrainingMode
from optimus.progress.options import LogFormatOptions
from optimus.progress.state import EpochClock, LogState, PodState

_SAME: Final = (0.8, 1.25)
"""Two lengths of an epoch within these factors are one, learned twice."""
_PRINTED_NEEDED: Final = 3


def steps_per_epoch(state: LogState, rules: LogFormatOptions) -> float | None:
    """Steps of the job in an epoch: at the run's counts where they shrink with workers, else in any
    run."""
    if rules.steps_shrink_with_workers:
        return _learned(state, rules) or state.steps_per_epoch or rules.steps_per_epoch
    return (
        rules.steps_per_epoch
        or state.reference_steps
        or _learned(state, rules)
        or state.steps_per_epoch
    )


def fixed_steps(state: LogState, rules: LogFormatOptions) -> bool:
    """Whether global steps divided by the steps of an epoch are epochs, over all runs."""
    if rules.steps_shrink_with_workers:
        return False
    return not rules.steps_may_shrink or state.reference_workers in (None, state.workers)


def step_unit(state: LogState, rules: LogFormatOptions) -> float | None:
    """What the run's steps are multiplied with to be of the first run's size; ``None`` while that
    is not known."""
    if (
        not rules.steps_may_shrink
        or state.reference_steps is None
        or state.reference_workers == state.workers
    ):
        return 1.0
    learned, examples = _learned(state, rules), _examples_per_step(state, rules)
    if learned is not None:
        factor = state.reference_steps / learned
    elif examples is not None and state.reference_examples is not None:
        factor = examples / state.reference_examples
    else:
        return None
    return 1.0 if _SAME[0] < factor < _SAME[1] else factor


def begin_run(state: LogState, rules: LogFormatOptions, workers: int) -> None:
    """Keep what the run that ends has taught, as far as it holds for one with so many workers."""
    learned = _learned(state, rules)
    if rules.steps_may_shrink and state.reference_steps is None and learned is not None:
        state.reference_steps, state.reference_workers = learned, state.workers
        state.reference_examples = _examples_per_step(state, rules)
    if workers != state.workers and (rules.steps_shrink_with_workers or rules.steps_may_shrink):
        state.clock = EpochClock()
        if rules.steps_shrink_with_workers and state.steps_per_epoch is not None:
            state.steps_per_epoch *= rules.trainers(state.workers) / rules.trainers(workers)
    state.clock.epoch = None


def _learned(state: LogState, rules: LogFormatOptions) -> float | None:
    return state.clock.steps_per_epoch or _batches_per_epoch(state, rules)


def _examples_per_step(state: LogState, rules: LogFormatOptions) -> float | None:
    """Examples that all sync workers take in a step together, from the lead's printed and measured
    speeds."""
    lead = _lead(state)
    rate = None if lead is None else lead.meter.rate()
    if lead is None or rate is None or len(lead.samples_per_second) < _PRINTED_NEEDED:
        return None
    return (
        median(lead.samples_per_second[1:]) / rate.steps_per_second * rules.trainers(state.workers)
    )


def _lead(state: LogState) -> PodState | None:
    return next((pod for pod in state.pods if pod.name == state.lead), None)


def _batches_per_epoch(state: LogState, rules: LogFormatOptions) -> float | None:
    """From one worker's batches: those of sync workers are the job's steps, those of async workers
    add up."""
    lead = _lead(state)
    if lead is None or lead.batches is None or lead.step is not None:
        return None
    return (
        lead.batches
        if rules.mode is TrainingMode.SYNC
        else lead.batches * rules.trainers(state.workers)
    )
