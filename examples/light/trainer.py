"""A worker (or chief): pulls parameters, computes the gradient of its examples, pushes it, and so
on.

The order of the data is a function of the global step in sync mode: step s reads the M examples
after s*M, and each of w workers an even share of them, so the result does not depend on the counts.
Trainer 0 also starts a run from the newest checkpoint, saves, and says when the training is over.
Whenever PSs and workers do not agree on run and step (a PS has lost its memory, a worker died
between two pushes), the PSs forget, and trainer 0 begins a new run from the checkpoint.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from examples.light.checkpoints import Checkpoint, restore, save
from examples.light.cluster import Address
from examples.light.costs import Link, sleep_until
from examples.light.frames import Frame, Kind
from examples.light.journal import Journal, Print, print_line, timed
from examples.light.peers import Patience, PeerLost, PsGroup, join_parameters
from examples.light.problem import FEATURES, Gradient, Problem, Vector
from examples.light.settings import Settings
from examples.light.sharding import even_slices

FindPs = Callable[[], Sequence[Address]]
_AGREEMENT_WAITS_SECONDS = (0.05, 0.1, 0.2, 0.4, 0.8)


@dataclass(frozen=True)
class Position:
    """Where the training stands: the parameters after `step` updates of a run."""

    run: int
    step: int
    parameters: Vector
    loss: float


def agree(frames: Sequence[Frame], synchronous: bool) -> Position | None:
    """Put the PSs' answers together; None where they are not of one run (and, in sync mode, one
    step)."""
    runs = {frame.run for frame in frames if frame.kind is Kind.PARAMETERS}
    steps = {frame.step for frame in frames} if synchronous else set()
    if (
        any(frame.kind is not Kind.PARAMETERS for frame in frames)
        or len(runs) > 1
        or len(steps) > 1
    ):
        return None
    return Position(frames[0].run, frames[0].step, join_parameters(frames), frames[0].loss)


class Trainer:
    """One of `count` trainers; `find_ps` returns the PSs' addresses (PeerLost if unknown)."""

    def __init__(
        self, index: int, count: int, settings: Settings, find_ps: FindPs, write: Print = print_line
    ) -> None:
        self._index, self._count = index, count
        self._settings = settings
        self._find_ps = find_ps
        self._write = write
        self._problem = Problem(settings.seed)
        self._link = Link(settings.costs)
        self._synchronous = settings.mode == "sync"
        self._journal: Journal | None = None
        self._held: Position | None = None
        self._saved_step, self._saved_at_seconds = 0, time.monotonic()
        self._first_batch, self._batches_done = (
            0,
            0,
        )  # async: this trainer's own way through the data

    def run(self) -> None:
        """Train to the end; PeerAway where a peer stays away for too long."""
        patience = Patience(self._settings.peer_timeout_seconds)
        while True:
            try:
                with PsGroup(
                    self._find_ps(), FEATURES, self._settings.peer_timeout_seconds
                ) as group:
                    self._train(group, patience)
                return
            except PeerLost as loss:
                if patience.fresh:
                    self._write(f"waits for its peers: {loss}")
                patience.wait(loss)

    def save_held(self) -> str | None:
        """Save what trainer 0 holds, as it is told to stop; the line that says so, or None where
        there is nothing new.

        A signal handler may call this anywhere: it asks no peer, as some may be gone already. In
        sync mode the others wait for the one that leaves first, whatever they were told."""
        held, folder = self._held, self._settings.checkpoint_dir
        if self._index != 0 or folder is None or not self._settings.saves_on_stop:
            return None
        if held is None or held.step <= self._saved_step:
            return None
        save(folder, Checkpoint(held.step, held.parameters))
        return timed(self._journal.saved_line(held.step)) if self._journal else None

    def _train(self, group: PsGroup, patience: Patience) -> None:
        position = self._join(group)
        patience.satisfied()
        while position is not None:
            self._held = position
            last_step = self._settings.last_step
            if last_step is not None and position.step >= last_step:
                self._finish(group, position)
                break
            position = self._step(group, position)
        self._write("training is over")

    def _join(self, group: PsGroup) -> Position | None:
        """Find the position that all PSs agree on, starting a run where it takes one; None:
        training is over."""
        while True:
            if self._index == 0 and any(state.run == 0 for state in group.status()):
                self._start_run(group)
            answers = group.pull()
            for wait_seconds in _AGREEMENT_WAITS_SECONDS:  # PSs complete a step a moment apart
                if any(answer.kind is Kind.OVER for answer in answers):
                    return None
                position = agree(answers, self._synchronous)
                if position is not None:
                    self._begin(position)
                    return position
                time.sleep(wait_seconds)
                answers = group.pull()
            group.forget(answers)

    def _begin(self, position: Position) -> None:
        folder = self._settings.checkpoint_dir
        if self._journal is None and self._index == 0 and folder is not None:
            newest = restore(
                folder, FEATURES
            ).checkpoint  # this process may have been started into a running job
            self._saved_step = newest.step if newest else 0
        self._journal = Journal(self._settings, position.step, self._write)
        self._journal.checkpoint_step = self._saved_step or None

    def _start_run(self, group: PsGroup) -> None:
        folder = self._settings.checkpoint_dir
        found = restore(folder, FEATURES) if folder is not None else None
        for sentence in found.refused if found else ():
            self._write(sentence)
        if found is None or found.checkpoint is None:
            group.initialise(0, Problem.initial_parameters())
            return
        group.initialise(found.checkpoint.step, found.checkpoint.parameters)
        self._saved_step, self._saved_at_seconds = found.checkpoint.step, time.monotonic()
        self._write(f"goes on from checkpoint={found.checkpoint.step}")

    def _step(self, group: PsGroup, position: Position) -> Position | None:
        """Make one step; the new position, or None where the training is over."""
        costs = self._settings.costs
        ready_at = self._link.carry(time.monotonic(), costs.model_bytes, messages=len(group))
        first, examples = self._share(position.step)
        began_at = time.monotonic()
        gradient = self._problem.gradient(position.parameters, first, examples)
        compute_seconds = max(costs.compute_seconds(examples), time.monotonic() - began_at)
        computed_at = ready_at + costs.compute_seconds(examples)
        sleep_until(self._link.carry(computed_at, costs.model_bytes, messages=len(group)))
        answers = group.push(self._index, position.run, position.step, gradient)
        if any(answer.kind is Kind.OVER for answer in answers):
            return None
        reached = agree(answers, self._synchronous)
        if reached is None:
            return self._join(group)
        if self._note_step(reached, gradient, compute_seconds):
            return reached
        self._finish(group, reached)
        return None

    def _share(self, step: int) -> tuple[int, int]:
        """Return the first example and the number of examples of this trainer's next batch."""
        batch = self._settings.batch_size
        if self._synchronous:
            share = even_slices(batch, self._count)[self._index]
            return step * batch + share.start, share.stop - share.start
        if self._batches_done == 0:
            self._first_batch = step
        place = self._first_batch + self._batches_done * self._count + self._index
        self._batches_done += 1
        return place * batch, batch

    def _note_step(self, reached: Position, gradient: Gradient, compute_seconds: float) -> bool:
        """Log and save what is due; False where the target is met and trainer 0 is to end the
        training."""
        assert self._journal is not None
        loss = reached.loss if self._synchronous else gradient.loss / gradient.examples
        examples = gradient.examples
        epoch_loss = self._journal.record(reached.step, loss, examples, compute_seconds)
        if self._index == 0 and self._save_due(reached.step):
            self._save(reached)
        if self._index != 0 or epoch_loss is None:
            return True
        return epoch_loss > self._settings.target_loss and not self._end_requested()

    def _end_requested(self) -> bool:
        """Whether the file that stands for a met goal has content."""
        path = self._settings.stop_file
        try:
            is_over = path is not None and path.stat().st_size > 0
        except OSError:
            return False
        if is_over:
            self._write(f"the goal is met, says {path}: the training ends")
        return is_over

    def _save_due(self, step: int) -> bool:
        steps, seconds = self._settings.checkpoint_steps, self._settings.checkpoint_seconds
        by_steps = steps > 0 and step // steps > self._saved_step // steps
        return by_steps or (seconds > 0 and time.monotonic() - self._saved_at_seconds >= seconds)

    def _save(self, position: Position) -> None:
        folder = self._settings.checkpoint_dir
        if folder is None or position.step == self._saved_step:
            return
        self._saved_at_seconds = time.monotonic()
        try:
            save(folder, Checkpoint(position.step, position.parameters))
        except OSError as error:
            self._write(f"the checkpoint of step {position.step} could not be written: {error}")
            return
        self._saved_step = position.step
        assert self._journal is not None
        self._journal.saved(position.step)

    def _finish(self, group: PsGroup, position: Position) -> None:
        """End the training for everyone, if this is trainer 0."""
        if self._index == 0:
            self._save(position)
            group.end(position.run)
