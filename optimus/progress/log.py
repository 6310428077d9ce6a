"""The progress of one job, accumulated from polled reads of its pods' logs.

1. Reads of one pod's log overlap; each line is taken once.
2. A line is cleaned and parsed, and moves its pod's position.
3. The lead pod gives step, epoch and losses of the job: of the pods that print a loss, the chief
   before the workers, worker 0 before the others.
4. A new run (new pods after a suspend) or a step back removes the losses that the restore undid.
5. Each run at its counts gives one sample of speed."""

import math
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, Self

from optimus.jobs import TRAINERS, Counts, Role
from optimus.progress import value_table
from optimus.progress.formats import parse_body
from optimus.progress.formats.settings import of_command
from optimus.progress.lines import Body, joined, records, split_prefix, whole_lines
from optimus.progress.metric_names import (
    ValueName,
    core_words,
    describe,
    is_of_training,
    metrics_of,
)
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, SavedCheckpoint, clean
from optimus.progress.pod_progress import (
    PodState,
    PositionChange,
    advance,
    new_lines,
    next_since,
    note_gap,
)
from optimus.progress.printed_values import unclear_number
from optimus.progress.state import (
    LogState,
    MetricState,
    add_epoch_mean,
    add_loss,
    add_metric,
    below_header,
    drop_undone_losses,
    job_rate,
    keep_epoch_length,
    settle_beside_steps,
    settle_count,
    settle_end,
    settle_fraction,
    step_unit,
    steps_give_epochs,
    steps_per_epoch,
    thin_losses,
    units_per_epoch,
)
from optimus.progress.types import (
    Declared,
    LogLine,
    LossPoint,
    MetricSeries,
    PodRun,
    RunStart,
    SpeedSample,
    TrainingProgress,
)

MAX_LOSSES: Final = 400
MAX_STORED_LOSSES: Final = 200
MAX_METRICS: Final = 8
MAX_VALUES: Final = 120
"""Values that are kept of one metric; ``MAX_STORED_VALUES`` are stored."""
MAX_STORED_VALUES: Final = 60
MAX_SAMPLES: Final = 64
MAX_PODS: Final = 8
_MAX_PRINTED: Final = 32
_READ: Final = (*TRAINERS, Role.EVALUATOR)
_MAX_LOSS: Final = 1e30
"""A larger loss counts as infinite: sums of such would be."""
_LINES_WITHOUT_LOSS: Final = 20
_UNREAD_LINES: Final = 200
_IN_A_ROW: Final = 3
"""So many bad losses, or numbers that are not clear, are said."""
_FALLS: Final = 2
"""So many falls from the same step show that the steps begin again by themselves."""


class ProgressLog(LogState):
    """Takes log lines, gives the progress. Can be stored and restored (``to_state``)."""

    def __init__(
        self,
        options: LogFormatOptions,
        max_losses: int = MAX_LOSSES,
        max_values: int = MAX_VALUES,
        on_line: Callable[[str, ParsedLine | None], None] | None = None,
    ) -> None:
        """``on_line`` is told of each line and what it says."""
        super().__init__()
        self._on_line = on_line
        self._max_losses, self._max_values = max_losses, max_values
        self.options = options
        """The way in which the log is read; it is replaced when the job's annotations change."""
        self._known: TrainingProgress | None = None
        """The progress at the last read, as ``_read_by`` these options."""
        self._read_by: LogFormatOptions | None = None
        self._forbidden = ""

    @classmethod
    def from_state(cls, options: LogFormatOptions, state: LogState) -> Self:
        """The log as it was when ``to_state`` gave this state."""
        log = cls(options)
        for name, value in state.copied().items():
            setattr(log, name, value)
        return log

    def to_state(self) -> LogState:
        """A copy of all that is remembered, bounded (some 200 losses, 64 samples)."""
        state = LogState(**self.copied())
        state.losses = thin_losses(state.losses, MAX_STORED_LOSSES)
        for series in state.series:
            series.points = thin_losses(series.points, MAX_STORED_VALUES)
        return state

    def refused(self, why: str) -> None:
        """The log may not be read, for this reason; until it is observed again."""
        self._forbidden, self._read_by = why, None

    def observe(
        self,
        pod: str,
        role: Role,
        index: int,
        counts: Counts,
        lines: Sequence[LogLine],
        run: PodRun | str,
    ) -> None:
        """Take what a read of one pod's log returned; lines that were read before are skipped.

        ``run`` is one incarnation of the job's pods, or its name, at ``counts``. Lines of the run
        before, and of roles that neither train nor evaluate, are skipped."""
        run = PodRun(run) if isinstance(run, str) else run
        self.refused("")
        if role not in _READ or run.name == self.former_run:
            return
        is_new = run.name != self.run
        if is_new:
            self._begin_run(run.name, counts)
        self._note_node_kind(run, is_new=is_new)
        source = self.pod_named(pod)
        if source is None:
            if len(self.pods) >= MAX_PODS:
                return
            source = PodState(pod, role, index)
            self.pods.append(source)
        source.read_before_at, source.read_at = source.read_at, run.read_at
        source.skips = run.skipped
        if run.skipped:
            note_gap(source)
            if self.lead == pod:
                self.clock.epoch = None  # the step at which it changes may be passed over
        for line in new_lines(source, lines):
            for record in records(line.text):
                for text in whole_lines(clean(record)):
                    self._take_text(source, line.at, text)
        source.behind = run.truncated
        self._age_checkpoint(source)

    def _take_text(self, pod: PodState, at: float, text: str) -> None:
        body = joined(pod, split_prefix(text))
        parsed = self._parsed(pod, body, text)
        if parsed is None or parsed.loss is None or self.unclear_lines:
            self._note_unclear(text, parsed)
        if self._on_line is not None:
            self._on_line(text, parsed)
        if parsed is None:
            self.unread_lines += bool(text.strip())
            return
        if parsed.end_is_doubtful:
            parsed.checksum = zlib.crc32(body.text.encode("utf-8", "replace"))
        if not _is_of_another(pod, parsed, body.stream):
            if parsed.epoch_as_printed:
                self._number_from_zero(parsed)
            self._take(pod, at, parsed)

    def _parsed(self, pod: PodState, body: Body, text: str) -> ParsedLine | None:
        parsed = parse_body(body.text, text, self.options)
        if pod.opened:
            is_setting = parsed is not None and parsed.declared is not None
            return parsed if is_setting else ParsedLine(form="objects")
        parsed = parsed or self._of_table(pod, body.text)
        if parsed is None:
            return parsed
        if parsed.form == "evaluation":
            pod.below_evaluation = not parsed.evaluated
        elif parsed.trained or parsed.heading is not None:
            pod.below_evaluation = False
        if parsed.heading is not None:
            pod.heading, pod.heading_batches = parsed.heading, parsed.batches
            return parsed if parsed.declared or parsed.epoch is not None else None
        if parsed.epoch_ended and (parsed.epoch, parsed.batch) == (None, None):
            pod.names_training = True  # "train loss: 0.5" below the header of its epoch
            if pod.heading is not None and (pod.header is None or pod.heading_batches is not None):
                parsed.epoch_ended = False  # it is below that of a step
        if parsed.values and not parsed.trained:
            self._place_below(pod, parsed)
        return parsed

    def _place_below(self, pod: PodState, parsed: ParsedLine) -> None:
        """Give values alone the position of the heading above them.

        Without one, metrics that rise, such as an AUC alone, are the result of an evaluation."""
        if parsed.epoch is not None or not (parsed.beside or parsed.loss is not None):
            return
        rises = any(each.rises for _, each in parsed.beside)
        is_training = any(map(is_of_training, parsed.values))
        pod.names_training = pod.names_training or is_training
        has_own = pod.names_training or (pod.places_own and parsed.loss is None)
        is_result = rises and not is_training and has_own
        if is_result or (pod.below_evaluation and not is_training):
            parsed.evaluated = {**parsed.evaluated, **metrics_of(parsed.values)}
            parsed.values, parsed.beside, parsed.loss = {}, (), None
            return
        if pod.places_own:
            return
        if pod.heading is not None and pod.heading_batches is not None:
            parsed.epoch = None if pod.header_assumed else pod.header
            parsed.epoch_as_printed = False
            parsed.batch, parsed.batches = pod.heading, pod.heading_batches or None
        elif pod.heading is not None:
            parsed.step = pod.heading
        elif pod.header is not None and not pod.header_assumed:
            parsed.epoch, parsed.epoch_as_printed = pod.header, False
            parsed.epoch_ended = parsed.end_is_doubtful = True
        parsed.is_below = True

    def _note_unclear(self, text: str, parsed: ParsedLine | None) -> None:
        """Remember a number that is not understood, until a loss is read again."""
        if parsed is not None and parsed.loss is not None and parsed.trained:
            self.unclear, self.unclear_lines = "", 0
            return
        unclear = unclear_number(text)
        if unclear is not None:
            self.unclear = self.unclear or unclear[:40]
            self.unclear_lines += 1

    def next_since(self, pod: str) -> float | None:
        """Return where to read the pod's log from, seconds since the epoch; ``None``: its start."""
        found = self.pod_named(pod)
        return None if found is None else next_since(found)

    def progress(self, now: float) -> TrainingProgress:
        """Return what is known at ``now``, seconds since the epoch; no sample is later than that.

        It is the same object as before where nothing was observed since."""
        if self._known is None or self._read_by is not self.options:
            found, self._read_by = self._progress(), self.options
            self._known = self._known if found == self._known else found
        known = self._known
        if all(sample.at <= now for sample in known.samples):
            return known
        samples = tuple(replace(sample, at=min(sample.at, now)) for sample in known.samples)
        return replace(known, samples=samples)

    def _progress(self) -> TrainingProgress:
        current, saver = self._sample(), self.pod_named(self.checkpoint_pod)
        known_steps = self.counts_steps or self.options.steps_per_epoch is not None
        return TrainingProgress(
            losses=tuple(self.losses),
            epoch=self.epoch,
            step=self.step,
            steps_per_epoch=steps_per_epoch(self, self.options),
            units_per_epoch=None if known_steps else units_per_epoch(self, self.options),
            samples=(*self.samples, *((current,) if current else ())),
            checkpoint_step=self.checkpoint_step,
            checkpoint_at=self.checkpoint_at,
            checkpoint_since=None if saver and saver.behind else self.checkpoint_since,
            read_interval_seconds=saver.read_interval_seconds if saver else 0.0,
            trained_seconds=self.trained_seconds + self._run_seconds(),
            diagnostic=self._forbidden or _diagnostic(self, self.options),
            diverged=self.bad_losses >= _IN_A_ROW,
            is_too_large=any(pod.skips for pod in self.pods),
            node_kind=self.node_kind,
            metrics=tuple(
                MetricSeries(each.name, each.evaluated, each.rises, tuple(each.points))
                for each in self.series
            ),
            declared=self._declared(),
            run_start=self.run_start,
        )

    def _declared(self) -> Declared:
        """Return what the command, the log and the user say of the run; the last one holds."""
        declared, options = self.declared, self.options
        if " --" in options.command:
            declared = of_command(options.command).updated(declared)
        return declared if options.declared is None else declared.updated(options.declared)

    def trains_in(self, run: str) -> bool:
        """Return whether the log of this run shows training: two positions, as the first may be the
        restored one."""
        is_current = run == self.run
        return is_current and any(len(pod.meter.marks) > 1 for pod in self.pods)

    def measured_counts(self) -> set[Counts]:
        """The counts at which a speed was measured in an earlier run."""
        return {sample.counts for sample in self.samples}

    def _begin_run(self, run: str, counts: Counts) -> None:
        if (sample := self._sample()) is not None:
            self.samples = [*self.samples, sample][-MAX_SAMPLES:]
        self.trained_seconds += self._run_seconds()
        keep_epoch_length(self, self.options, counts.workers)
        before = self.step_before
        self.stopped_at, self.step_before = self.step, None
        self.stopped_at_risk = max((before or 0) - (self.checkpoint_step or 0), 0)
        self.former_run, self.run = self.run, run
        self.ps, self.workers = counts
        self.pods, self.lead = [], None

    def _note_node_kind(self, run: PodRun, *, is_new: bool) -> None:
        kind = run.node_kind
        if kind is None or (not kind and not is_new and self.node_kind):
            # A node that is gone while its pods are still listed does not make its kind unknown.
            return
        self.servers = run.servers
        if self.node_kind is None:
            # Samples from before the kind was determined are most likely of the same kind.
            self.samples = [replace(sample, node_kind=kind) for sample in self.samples]
        self.node_kind = kind

    def _number_from_zero(self, parsed: ParsedLine) -> None:
        epoch, evaluated = parsed.epoch, parsed.evaluated_epoch
        if 0 in (epoch, evaluated):
            self.first_epoch = 0
        first = self.first_epoch
        if parsed.last_epoch is not None and epoch is not None:
            parsed.declared = Declared(epochs=parsed.last_epoch + 1 - first)
        parsed.epoch = None if epoch is None else max(epoch - first, 0)
        parsed.evaluated_epoch = None if evaluated is None else max(evaluated - first, 0)

    def _of_table(self, pod: PodState, text: str) -> ParsedLine | None:
        """A row of a table, or its header, which is remembered."""
        text, starts = value_table.in_ascii(text), pod.column_starts
        found = value_table.row(text, pod.columns, self.options, starts) if pod.columns else None
        if found is None and pod.names_above:
            found = value_table.below(text, pod.names_above, self.options)
            pod.names_above = pod.names_above if value_table.is_rule(text) else ()
        if found is None and (named := value_table.header(text)):
            pod.columns, found = named, ParsedLine()
            pod.column_starts = value_table.starts(text, named)
        if found is None:
            pod.names_above = value_table.names(text) or pod.names_above
        return found

    def _take(self, pod: PodState, at: float, parsed: ParsedLine) -> None:
        if pod.role is Role.EVALUATOR:
            self._note_evaluated(parsed)
            return
        if parsed.samples_per_second is not None and math.isfinite(parsed.samples_per_second):
            pod.samples_per_second.append(parsed.samples_per_second)
            del pod.samples_per_second[1:-_MAX_PRINTED]  # the first, warm-up, stays in front
        self.epoch_line_is_mean = self.epoch_line_is_mean or parsed.epoch_line_is_mean
        if parsed.learning_rate is not None and not parsed.trained:
            self.learning_rate = parsed.learning_rate
        if parsed.trained:
            self._train(pod, at, parsed)
        elif parsed.epoch is not None:
            pod.header, pod.header_batches, pod.header_assumed = parsed.epoch, None, False
            if parsed.heading is None and pod.heading_batches is not None:
                pod.heading = pod.heading_batches = None
        if parsed.declared is not None:
            self.declared = self.declared.updated(parsed.declared)
        if parsed.evaluated and self.lead in (None, pod.name):
            self._note_evaluated(parsed)
        if parsed.saved is not None:
            self._note_saved(pod, at, parsed.saved)

    def _train(self, pod: PodState, at: float, parsed: ParsedLine) -> None:
        """Take a line with a position in the training."""
        if pod.saving is not None:
            self._note_saved(pod, at, replace(pod.saving, complete=True))
        if parsed.is_loose and parsed.epoch is None and pod.header is not None:
            below_header(pod, parsed)
        settle_fraction(self, pod, parsed, self.options)
        settle_beside_steps(pod, parsed)
        self._number_epochs(pod, parsed)
        settle_count(self, pod, parsed)
        if parsed.end_is_doubtful:
            settle_end(self, pod, parsed)
        if parsed.steps_per_epoch:
            self.clock.said = parsed.steps_per_epoch
        if parsed.loss is not None and not parsed.is_below:
            pod.places_own = True
            if pod.loss_by != "step":
                pod.loss_by = "batch" if parsed.step is None else "step"
        elif parsed.beside and parsed.step is None:
            pod.loss_by = pod.loss_by or "batch"
        move = advance(pod, at, parsed, self.epoch_offset)
        if move is not None:
            pod.tells_loss = pod.tells_loss or parsed.loss is not None
            self._follow_lead(pod, parsed, move)

    def _number_epochs(self, pod: PodState, parsed: ParsedLine) -> None:
        """Count the epochs on where a restarted script numbers them from the first again.

        Its step shows that it goes on, else a loss nearer to the last one than to the first. Until
        there is a loss it is taken to go on, so that nothing known is dropped too early."""
        epoch = parsed.epoch if parsed.epoch is not None else pod.header
        known = self.losses[-1].epoch if self.losses else None
        if epoch is None or known is None:
            return
        begins = epoch == 0 and pod.epoch is not None and pod.epoch > self.epoch_offset
        if self.numbered_run == self.run and not begins:
            return
        if epoch > 0:
            # It goes on counting, in its own numbers or in those of the run before.
            is_own = abs(epoch - known) <= abs(epoch + self.epoch_offset - known)
            self.epoch_offset = 0 if is_own else self.epoch_offset
        else:
            goes_on = _goes_on(self, parsed)
            self.epoch_offset = math.floor(known) if goes_on is not False else 0
            if goes_on is None:
                return
        self.numbered_run = self.run

    def _follow_lead(self, pod: PodState, parsed: ParsedLine, move: PositionChange) -> None:
        """Update step, epoch and losses of the job where its lead pod has moved."""
        former = self.lead
        trainers = [each for each in self.pods if each.role is not Role.EVALUATOR]
        self.lead = pod.name if len(trainers) == 1 else min(trainers, key=_lead_rank).name
        if self.lead != pod.name:
            return
        if former is None:
            self._note_run_start(move)
        if move.back or former != pod.name:
            self._restore(parsed, move)
        self._set_position(pod, move)
        self._note_loss(parsed, move)

    def _note_run_start(self, move: PositionChange) -> None:
        """Compare the first position of a run with the last one of the run before."""
        stopped_at = self.stopped_at
        if move.step is not None and stopped_at is not None and self.run is not None:
            lost_steps, at_risk = max(stopped_at - move.step, 0), self.stopped_at_risk
            every, saved = self.saves_every, self.checkpoint_step
            if every and saved is not None and move.step - 1 >= saved + 0.8 * every:
                at_risk = 0  # a checkpoint that the last read did not show
            anew = saved is not None and move.step < (every or saved)
            self.run_start = RunStart(self.run, lost_steps, at_risk, saved if anew else None)
        self.stopped_at = None

    def _restore(self, parsed: ParsedLine, move: PositionChange) -> None:
        """Training goes on from an earlier position, or a new run begins: what came after that
        position is undone."""
        by_step = move.step is not None and move.done is None
        step = max(move.step - 1, 0) if by_step and move.step is not None else None
        if step is not None and parsed.saved is not None and parsed.saved.step is not None:
            step = min(step, parsed.saved.step)
        epoch = None if move.epoch is None else float(move.epoch)
        for points in (self.losses, *(series.points for series in self.series)):
            drop_undone_losses(points, step=step, epoch=epoch)
        self.clock.epoch = None
        if step is not None and self.checkpoint_step is not None and self.checkpoint_step > step:
            # It was restored from an older checkpoint than the last one known.
            self.checkpoint_step = step or None

    def _set_position(self, pod: PodState, move: PositionChange) -> None:
        counts_steps = move.step is not None or pod.counts_steps
        if counts_steps and not self.counts_steps:
            self.steps_per_epoch = None  # it counted examples, or parts of an epoch
        self.counts_steps = counts_steps
        is_beside = pod.loss_by == "batch" and pod.epoch is not None
        if move.step is not None and move.done is None:
            epoch, done = (pod.epoch, self.epoch) if is_beside else (move.epoch, None)
            self.clock.take(epoch, move.step, done if pod.batches else None)
        if move.step != self.step:
            self.step_before = self.step
        per_epoch = steps_per_epoch(self, self.options)
        self.steps_per_epoch = units_per_epoch(self, self.options)
        self.step = move.step
        if move.done is not None:
            self.epoch = move.done
            if move.step is None and per_epoch:
                self.step = round(move.done * per_epoch)
        elif move.step is not None and not is_beside:
            self.epoch = self._epoch_at(move.step, move.epoch, per_epoch)

    def _epoch_at(self, step: int, epoch: int | None, per_epoch: float | None) -> float | None:
        """The epochs done at a step in a running epoch, where known."""
        if per_epoch and steps_give_epochs(self, self.options):
            return step / per_epoch
        if epoch is not None:
            # Of an epoch of unknown length no more is taken than the run's part that is done.
            end = self.declared.steps if epoch == 0 else None
            return epoch + min(step / end if end else 0.5, 0.5)
        return None if self.clock.epoch is None else self.epoch

    def _note_loss(self, parsed: ParsedLine, move: PositionChange) -> None:
        self._note_metrics(parsed, move)
        if parsed.loss is None:
            new = (name for name in parsed.values if name not in self.metrics)
            self.metrics = [*self.metrics, *new][:MAX_METRICS]
            self.lossless += 1
            return
        if not abs(parsed.loss) < _MAX_LOSS:
            self.bad_losses += 1
            return
        if self.loss_rank is None or parsed.loss_rank < self.loss_rank:
            self.loss_rank, self.losses = parsed.loss_rank, []  # those of a better kind replace all
        if parsed.loss_rank > self.loss_rank:
            return
        self.bad_losses = 0
        rate = self.learning_rate if parsed.learning_rate is None else parsed.learning_rate
        known = move.epoch is not None or self.steps_per_epoch is not None
        epoch = self.epoch if known else None
        point = LossPoint(parsed.loss, epoch, self.step, float(move.steps), rate)
        if parsed.epoch_ended and parsed.batch is None:
            add_epoch_mean(self.losses, point, of_all=self.epoch_line_is_mean)
        else:
            add_loss(self.losses, point, replace_last=move.repeat, cumulative=parsed.cumulative)
        if len(self.losses) > self._max_losses:
            self.losses = thin_losses(self.losses, self._max_losses * 3 // 4)

    def _note_metrics(self, parsed: ParsedLine, move: PositionChange) -> None:
        """The metrics of the training on a line."""
        closes = parsed.epoch_ended and parsed.batch is None
        is_mean = parsed.cumulative or (closes and self.epoch_line_is_mean)
        for name, described in parsed.beside:
            points, value = self._points(name, described), parsed.values[name]
            if points is not None and abs(value) < _MAX_LOSS:
                point = LossPoint(value, self.epoch, self.step, float(move.steps))
                add_metric(points, point, is_mean=is_mean, closes=closes, limit=self._max_values)

    def _note_evaluated(self, parsed: ParsedLine) -> None:
        """The values of an evaluation, which are of the current position or of a named epoch."""
        epoch = self.epoch
        if parsed.evaluated_epoch is not None:
            epoch = parsed.evaluated_epoch + self.epoch_offset + 1.0
        for name, value in parsed.evaluated.items():
            described = replace(describe(name), evaluated=True)
            points = self._points(name, described)
            if points is not None and abs(value) < _MAX_LOSS:
                point = LossPoint(value, epoch, self.step)
                add_metric(points, point, is_mean=True, closes=True, limit=self._max_values)

    def _points(self, name: str, described: ValueName) -> list[LossPoint] | None:
        """The kept values of a metric; ``None`` for one too many."""
        evaluated = described.evaluated
        for series in self.series:
            if series.name == name and series.evaluated == evaluated:
                return series.points
        if len(self.series) >= MAX_METRICS * (1 + self._is_aimed_at(name)):
            return None
        self.series.append(MetricState(name, evaluated, described.rises))
        return self.series[-1].points

    def _is_aimed_at(self, name: str) -> bool:
        """Return whether the job's goal may be about a metric, however many others there are."""
        words = set(core_words(name))
        return any(set(core_words(aim)) <= words for aim in self.options.aims)

    def _note_saved(self, pod: PodState, at: float, saved: SavedCheckpoint) -> None:
        """Take a checkpoint that a pod's log names at ``at``: the job may be stopped right after a
        complete one without losing work.

        One that only begins is kept until the pod's next sign of training. Step 0, which TensorFlow
        saves at its start, is no progress."""
        if not saved.complete:
            pod.saving = saved
            return
        pod.saving = None
        step = self._saved_step(pod, saved)
        if step == 0 or (step is not None and step == self.checkpoint_step):
            return
        if step is not None and self.checkpoint_step is not None:
            self.saves_every = max(step - self.checkpoint_step, 0)
        self.checkpoint_step, self.checkpoint_at, self.checkpoint_pod = step, at, pod.name
        # By the reader's clock it was made after the read before, which did not show it. For the
        # first read only the kubelet's clock gives its age.
        self.checkpoint_since = pod.read_before_at
        if pod.read_before_at is None:
            self.checkpoint_since = at if pod.read_at is None else min(at, pod.read_at)

    def _age_checkpoint(self, pod: PodState) -> None:
        """The checkpoint is at least as old as the lines after it are later.

        A log may be read late although no read was cut: a node that did not answer for long. Only
        timestamps of one pod are compared, so that no clock has to agree with another."""
        since, saved_at = self.checkpoint_since, self.checkpoint_at
        if pod.name != self.checkpoint_pod or since is None or saved_at is None:
            return
        if pod.read_at is not None and pod.read_until is not None:
            age_seconds = max(pod.read_until - saved_at, 0.0)
            self.checkpoint_since = min(since, pod.read_at - age_seconds)

    def _saved_step(self, pod: PodState, saved: SavedCheckpoint) -> int | None:
        if saved.step is not None:
            return saved.step
        if saved.epochs is None:
            return self.step if pod.step is None else pod.step
        epochs = saved.epochs + self.epoch_offset
        if pod.step is not None:
            # The number where it can be the step itself, else the last step on a line.
            is_step = abs(saved.epochs - pod.step) <= max(10, pod.step // 10)
            return saved.epochs if is_step else pod.step
        per_epoch = steps_per_epoch(self, self.options)
        if per_epoch and pod.epoch is not None and epochs <= pod.epoch + 1:
            return round(epochs * per_epoch)
        # A number beyond the running epoch counts something else: it is of the current position.
        return self.step

    def _sample(self) -> SpeedSample | None:
        rate = job_rate(self, self.options)
        unit = step_unit(self, self.options)
        ends = [pod.read_until for pod in self.pods if pod.read_until is not None]
        if rate is None or unit is None or not ends:
            return None
        speed, kind = rate.steps_per_second * unit, self.node_kind or ""
        counts = Counts(self.ps, self.workers)
        return SpeedSample(counts, speed, rate.seconds, max(ends), kind, self.servers)

    def _run_seconds(self) -> float:
        return max((pod.meter.steady_seconds for pod in self.pods), default=0.0)


def _is_of_another(pod: PodState, parsed: ParsedLine, stream: str) -> bool:
    """Return whether a line is of another process than the followed one, which is the first whose
    lines have a loss, and until there is one the first of all."""
    if not parsed.trained or stream == pod.stream:
        return False
    if not pod.stream or (parsed.loss is not None and not pod.tells_loss):
        pod.stream = stream or pod.stream
    return stream not in ("", pod.stream)


def _goes_on(state: LogState, parsed: ParsedLine) -> bool | None:
    """Return whether a line of the first epoch goes on from what is known; ``None``: not shown."""
    first, last = state.losses[0], state.losses[-1]
    if parsed.step is not None and last.step is not None:
        return 2 * parsed.step > last.step
    if parsed.loss is None or not math.isfinite(parsed.loss):
        return None
    to_first, to_last = abs(parsed.loss - first.loss), abs(parsed.loss - last.loss)
    if min(parsed.loss, first.loss, last.loss) > 0:
        to_first = abs(math.log(parsed.loss / first.loss))
        to_last = abs(math.log(parsed.loss / last.loss))
    return to_last < to_first


def _lead_rank(pod: PodState) -> tuple[bool, bool, int, int]:
    silent = pod.step is None and pod.epoch is None
    return not pod.tells_loss, silent, TRAINERS.index(pod.role), pod.index


def _unclear_text(state: LogState, options: LogFormatOptions) -> str | None:
    """Return what of the log may mean two things, or is not what the job's goal counts."""
    if state.unclear_lines >= _IN_A_ROW:
        return (
            f"the number {state.unclear} in the log may have a decimal comma or thousands, and is "
            "not read: print it with a decimal point and without commas"
        )
    if any(pod.falls >= _FALLS for pod in state.pods):
        return (
            "the log's steps begin again and again after the same step, and no line names the "
            "epoch, so that what came before is taken for undone: print the epoch, too, such as "
            "'epoch=3 step=10 loss=0.5', or steps that go on"
        )
    if options.needs_steps and state.epoch is not None and state.step is None:
        return (
            "the log shows epochs and no step, so that the goal of optimus.dl/target-steps cannot "
            "be seen: print the step, too, such as 'epoch=3 step=1200 loss=0.5', set "
            "optimus.dl/target-epochs instead, or say with optimus.dl/steps-per-epoch how many "
            "steps an epoch has"
        )
    return None


def _diagnostic(state: LogState, options: LogFormatOptions) -> str | None:
    """Return what is wrong with the job's log, and what would help; ``None`` where nothing is.

    No figure in it grows: each becomes an Event, and a changed sentence would become another."""
    if state.bad_losses >= _IN_A_ROW:
        return "the last losses in the log are nan or infinite: training may have diverged"
    slow = _slow_pattern(options)
    if slow is not None:
        return slow
    unclear = _unclear_text(state, options)
    if unclear is not None:
        return unclear
    if state.losses or (options.aims and state.series):
        return None
    named = f"named {options.loss_metric!r} " if options.loss_metric else ""
    if state.lossless >= _LINES_WITHOUT_LOSS:
        names = f" (it has {', '.join(state.metrics)})" if state.metrics else ""
        where = f"the log's lines of progress{names}"
    elif state.unread_lines >= _UNREAD_LINES:
        where = f"more than {_UNREAD_LINES} log lines"
    else:
        return None
    if options.aims:
        values = " ".join(f"{aim.replace(' ', '_')}=0.5" for aim in options.aims)
        names = " and no ".join(options.aims)
        return f"no {names} was found in {where}: print lines such as 'epoch=3 {values}'"
    training = (series for series in state.series if not series.evaluated)
    falls = next((series.name for series in training if series.rises is False), None)
    if falls is not None:
        return (
            f"no training loss {named}was found in {where}: print it, or let {falls}, which falls, "
            f"be the loss with the annotation optimus.dl/loss-metric: {falls}"
        )
    return (
        f"no training loss {named}was found in {where}: name it with the annotation "
        "optimus.dl/loss-metric, describe it with optimus.dl/metrics-format, or aim at another "
        "metric, such as optimus.dl/target: accuracy>=0.9"
    )


def _slow_pattern(options: LogFormatOptions) -> str | None:
    patterns = {
        "metrics-format": options.metrics_format,
        "checkpoint-format": options.checkpoint_format,
    }
    for name, pattern in patterns.items():
        if pattern is not None and pattern.too_slow:
            return (
                f"optimus.dl/{name}: {pattern.text!r} is not used any more, as it takes too long "
                "for the log's lines; a shorter one with fewer optional parts and repetitions "
                "would be right"
            )
    return None
