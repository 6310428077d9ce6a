"""The progress of one job, accumulated from polled reads of its pods' logs.

Reads of one pod's log overlap; each line is taken once. Losses come from one pod, the lead: of
those that print a loss, the chief before the workers, worker 0 before the others. A new run (pods
made anew after a suspend) or a step back takes away the losses that the restore undid. Each run at
its counts gives one sample of speed."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Self

from optimus.jobs import Counts, Role
from optimus.progress import epochs, loss_series
from optimus.progress.checkpoints import forget_undone, note_saved
from optimus.progress.diagnostics import complaint
from optimus.progress.formats import read_line
from optimus.progress.job_speed import job_rate
from optimus.progress.line_cleanup import clean
from optimus.progress.options import LogFormatOptions
from optimus.progress.parsed_line import Reading
from optimus.progress.position import Move, advance, next_since, unread
from optimus.progress.state import LogState, PodState
from optimus.progress.types import LogLine, LossPoint, RunLook, SpeedSample, TrainingProgress

MAX_LOSSES: Final = 400
MAX_STORED_LOSSES: Final = 200
MAX_SAMPLES: Final = 64
MAX_PODS: Final = 8
_MAX_PRINTED: Final = 32
_MAX_METRICS: Final = 12
_TRAINERS: Final = (Role.CHIEF, Role.MASTER, Role.WORKER)
_MOST: Final = 1e30
"""A loss beyond it is as good as infinite, and sums of such would be."""


class ProgressLog:
    """Takes in log lines, tells the progress. Can be stored and rebuilt: ``to_state``,
    ``from_state``."""

    def __init__(self, rules: LogFormatOptions, max_losses: int = MAX_LOSSES) -> None:
        self._max_losses = max_losses
        self.rules = rules
        """May be replaced when the job's annotations change."""
        self._state = LogState()

    @classmethod
    def from_state(cls, rules: LogFormatOptions, state: LogState) -> Self:
        """The log as it was when ``to_state`` gave this state."""
        log = cls(rules)
        log._state = state.copied()
        return log

    def to_state(self) -> LogState:
        """A copy of all that is remembered, bounded (some 200 losses, 64 samples): plain
        dataclasses."""
        state = self._state.copied()
        state.losses = loss_series.thin(state.losses, MAX_STORED_LOSSES)
        return state

    def observe(
        self,
        pod: str,
        role: Role,
        index: int,
        counts: Counts,
        lines: Sequence[LogLine],
        run: RunLook | str,
    ) -> None:
        """Take in what a read of one pod's log gave; lines that were read before are passed over.

        ``run`` is one incarnation of the job's pods, or its name, at ``counts``; it changes with
        each resume. Lines of the run before, read late, are passed over. Roles that do not train
        print no progress and are passed over."""
        look = RunLook(run) if isinstance(run, str) else run
        if role not in _TRAINERS or look.name == self._state.former_run:
            return
        is_new = look.name != self._state.run
        if is_new:
            self._begin_run(look.name, counts)
        self._note_kind(look, is_new=is_new)
        state = self._pod(pod, role, index)
        if state is None:
            return
        state.read_before_at, state.read_at = state.read_at, look.read_at
        for line in unread(state, lines):
            reading = read_line(clean(line.text), self.rules)
            if reading is not None:
                self._take(state, line.at, self._from_zero(reading))
            elif line.text.strip():
                self._state.unread_lines += 1

    def next_since(self, pod: str) -> float | None:
        """From when the pod's log is to be read next, seconds since the epoch; ``None``: from its
        beginning."""
        return next((next_since(state) for state in self._state.pods if state.name == pod), None)

    def progress(self, now: float) -> TrainingProgress:
        """What is known at ``now``, seconds since the epoch; no sample lies in the future, whatever
        a node's clock."""
        state = self._state
        current = self._sample()
        samples = [*state.samples, *((current,) if current else ())]
        return TrainingProgress(
            losses=tuple(state.losses),
            epoch=state.epoch,
            step=state.step,
            steps_per_epoch=epochs.steps_per_epoch(state, self.rules),
            samples=tuple(replace(sample, at=min(sample.at, now)) for sample in samples),
            checkpoint_step=state.checkpoint_step,
            checkpoint_at=state.checkpoint_at,
            checkpoint_since=state.checkpoint_since,
            trained_seconds=state.trained_seconds + self._run_seconds(),
            complaint=complaint(state, self.rules),
            node_kind=state.node_kind,
        )

    def _begin_run(self, run: str, counts: Counts) -> None:
        state = self._state
        sample = self._sample()
        if sample is not None:
            state.samples = [*state.samples, sample][-MAX_SAMPLES:]
        state.trained_seconds += self._run_seconds()
        epochs.begin_run(state, self.rules, counts.workers)
        state.former_run, state.run = state.run, run
        state.ps, state.workers = counts
        state.pods, state.lead = [], None

    def _note_kind(self, look: RunLook, *, is_new: bool) -> None:
        state = self._state
        if look.node_kind is None or (not look.node_kind and not is_new and state.node_kind):
            # a node that is gone while its pods are still listed does not make its kind unknown
            return
        if state.node_kind is None:
            # What was measured before anybody looked was most likely measured on nodes like these.
            state.samples = [replace(sample, node_kind=look.node_kind) for sample in state.samples]
        state.node_kind = look.node_kind

    def _pod(self, name: str, role: Role, index: int) -> PodState | None:
        pods = self._state.pods
        found = next((pod for pod in pods if pod.name == name), None)
        if found is None and len(pods) < MAX_PODS:
            found = PodState(name, role, index)
            pods.append(found)
        return found

    def _from_zero(self, reading: Reading) -> Reading:
        if not reading.epoch_as_printed or reading.epoch is None:
            return reading
        if reading.epoch == 0:
            self._state.first_epoch = 0
        return replace(reading, epoch=max(reading.epoch - self._state.first_epoch, 0))

    def _take(self, pod: PodState, at: float, reading: Reading) -> None:
        self._note_speeds(pod, at, reading)
        self._note_form(reading)
        if reading.trained:
            self._advance(pod, at, reading)
        elif reading.epoch is not None:
            pod.header, pod.header_batches = reading.epoch, None
        if reading.saved is not None:
            note_saved(
                self._state, pod, at, reading.saved, epochs.steps_per_epoch(self._state, self.rules)
            )

    def _note_form(self, reading: Reading) -> None:
        state = self._state
        state.epoch_line_is_mean = state.epoch_line_is_mean or reading.epoch_line_is_mean
        if reading.learning_rate is not None and not reading.trained:
            state.learning_rate = reading.learning_rate

    def _advance(self, pod: PodState, at: float, reading: Reading) -> None:
        if pod.saving is not None:
            begun = replace(pod.saving, complete=True)
            note_saved(self._state, pod, at, begun, epochs.steps_per_epoch(self._state, self.rules))
        move = advance(pod, at, reading)
        if move is not None:
            pod.tells_loss = pod.tells_loss or reading.loss is not None
            self._follow(pod, reading, move)

    def _note_speeds(self, pod: PodState, at: float, reading: Reading) -> None:
        for value, kept in (
            (reading.samples_per_second, pod.samples_per_second),
            (reading.steps_per_second, pod.steps_per_second),
        ):
            if value is not None and math.isfinite(value):
                pod.speeds_since = at if pod.speeds_since is None else pod.speeds_since
                kept.append(value)
                del kept[1:-_MAX_PRINTED]  # the first, warm-up, stays in front

    def _follow(self, pod: PodState, reading: Reading, move: Move) -> None:
        """Follow the lead pod's move: step, epoch and loss of the job."""
        former = self._state.lead
        self._state.lead = min(self._state.pods, key=_rank).name
        if self._state.lead != pod.name:
            return
        if move.back or former != pod.name:
            self._restore(reading, move)
        self._place(move)
        self._note_loss(reading, move)

    def _restore(self, reading: Reading, move: Move) -> None:
        """Training goes on from an earlier place, or a new run begins: what came after that place
        is undone."""
        state = self._state
        step = None if move.step is None else max(move.step - 1, 0)
        if step is not None and reading.saved is not None and reading.saved.step is not None:
            step = min(step, reading.saved.step)
        loss_series.drop_undone(
            state.losses, step=step, epoch=None if move.epoch is None else float(move.epoch)
        )
        state.clock.epoch = None
        if step is not None:
            forget_undone(state, step)

    def _place(self, move: Move) -> None:
        state = self._state
        if move.step is not None and move.epoch is not None:
            state.clock.tick(move.epoch, move.step)
        per_epoch = state.steps_per_epoch = epochs.steps_per_epoch(state, self.rules)
        if move.step is None:
            state.epoch = move.done
            state.step = (
                round(move.done * per_epoch) if move.done is not None and per_epoch else None
            )
            return
        state.step = move.step
        if per_epoch and epochs.fixed_steps(state, self.rules):
            state.epoch = move.step / per_epoch
        else:
            state.epoch = None if move.epoch is None else move.epoch + 0.5

    def _note_loss(self, reading: Reading, move: Move) -> None:
        state = self._state
        if reading.loss is None:
            new = (name for name in reading.metrics if name not in state.metrics)
            state.metrics = [*state.metrics, *new][:_MAX_METRICS]
            state.lossless += 1
            return
        if not abs(reading.loss) < _MOST:
            state.bad_losses += 1
            return
        state.bad_losses = 0
        rate = state.learning_rate if reading.learning_rate is None else reading.learning_rate
        point = LossPoint(reading.loss, state.epoch, state.step, float(move.steps), rate)
        if reading.epoch_ended and reading.batch is None:
            loss_series.add_epoch_mean(state.losses, point, whole=state.epoch_line_is_mean)
        else:
            loss_series.add(
                state.losses, point, replace_last=move.repeat, cumulative=reading.cumulative
            )
        if len(state.losses) > self._max_losses:
            state.losses = loss_series.thin(state.losses, self._max_losses * 3 // 4)

    def _sample(self) -> SpeedSample | None:
        state = self._state
        rate, unit = (
            job_rate(state.pods, state.workers, self.rules),
            epochs.step_unit(state, self.rules),
        )
        ends = [pod.read_until for pod in state.pods if pod.read_until is not None]
        if rate is None or unit is None or not ends:
            return None
        return SpeedSample(
            state.counts,
            rate.steps_per_second * unit,
            rate.seconds,
            max(ends),
            state.node_kind or "",
        )

    def _run_seconds(self) -> float:
        return max((pod.meter.steady_seconds for pod in self._state.pods), default=0.0)


def _rank(pod: PodState) -> tuple[bool, bool, int, int]:
    silent = pod.step is None and pod.epoch is None
    return not pod.tells_loss, silent, _TRAINERS.index(pod.role), pod.index
