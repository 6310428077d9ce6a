"""Which checkpoint is known to be complete: a job may be stopped right after one without losing
work."""

from optimus.progress.parsed_line import Saved
from optimus.progress.state import LogState, PodState


def note_saved(
    state: LogState, pod: PodState, at: float, saved: Saved, steps_per_epoch: float | None
) -> None:
    """Take in that a pod's log spoke of a checkpoint at ``at``.

    One that only begins is kept until the pod's next sign of training. The checkpoint of step 0
    that TensorFlow writes at its start is no progress, and one that is known is no news.
    """
    if not saved.complete:
        pod.saving = saved
        return
    pod.saving = None
    step = _step_of(state, pod, saved, steps_per_epoch)
    if step != 0 and (step is None or step != state.checkpoint_step):
        state.checkpoint_step, state.checkpoint_at = step, at
        state.checkpoint_since = _since(pod, at)


def forget_undone(state: LogState, restored_step: int) -> None:
    """Training goes on from an earlier step than the checkpoint that was known: it goes on from an
    older one."""
    if state.checkpoint_step is not None and state.checkpoint_step > restored_step:
        state.checkpoint_step = restored_step or None


def _since(pod: PodState, at: float) -> float:
    """Since when, at the earliest, the checkpoint is there, by the reader's clock: the read before
    did not show it.

    Of what the first read shows only the kubelet's clock tells the age.
    """
    if pod.read_before_at is not None:
        return pod.read_before_at
    return at if pod.read_at is None else min(at, pod.read_at)


def _step_of(
    state: LogState, pod: PodState, saved: Saved, steps_per_epoch: float | None
) -> int | None:
    if saved.step is not None:
        return saved.step
    if saved.epochs is None:
        return state.step if pod.step is None else pod.step
    if pod.step is not None:
        return _near(saved.epochs, pod.step)
    # A number beyond the running epoch counts something else: the checkpoint is of where training
    # stands.
    known = steps_per_epoch is not None and pod.epoch is not None and saved.epochs <= pod.epoch + 1
    return round(saved.epochs * steps_per_epoch) if known and steps_per_epoch else state.step


def _near(number: int, step: int) -> int:
    """A checkpoint's number where it can be the step itself, else the step that was last told."""
    return number if abs(number - step) <= max(10, step // 10) else step
