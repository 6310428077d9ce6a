"""What a number on a line counts, which only the log as a whole shows.

1. A step or an iteration beside an epoch counts within the epoch where it begins again with the
   next one, and over the run where it goes on (``is_loose`` of a line).
2. Values beside an epoch alone are those of the whole epoch where the log has one such line for
   each; the first line cannot show it (``end_is_doubtful``).

Until it shows, less progress is taken than there may be; then what was taken is put right."""

from dataclasses import replace
from typing import Final, Literal

from optimus.progress.parsed_line import ParsedLine
from optimus.progress.pod_progress import PodState
from optimus.progress.state import LogState, epoch_index
from optimus.progress.types import Declared, LossPoint

_NEAR: Final = 2.0
"""Times the distance of two lines: a count that goes on over epochs is not further than that."""
_MOST_NAMES: Final = 8
Kind = Literal["", "epoch", "run"]


def below_header(pod: PodState, parsed: ParsedLine) -> None:
    """Give a step below the header of an epoch that epoch; one with a total is of the epoch."""
    parsed.epoch, parsed.epoch_as_printed = pod.header, False
    total = None if parsed.declared is None else parsed.declared.steps
    if total and pod.step is None:
        parsed.batch, parsed.batches = parsed.step, total
        parsed.step = parsed.declared = None


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


def _kind(pod: PodState, count: int, *, of_steps: bool) -> Kind:
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
        if former is not None and not (pod.within or pod.one_each):
            pod.one_each = state.one_each = True
            if parsed.epoch is not None and parsed.epoch > former:
                _end_former(state, pod, former + state.epoch_offset)
        pod.doubtful, pod.doubtful_names = parsed.epoch, ()
    new = [name for name in parsed.values if name not in pod.doubtful_names]
    pod.doubtful_names = (*pod.doubtful_names, *new)[:_MOST_NAMES]
    pod.doubtful_checksum = parsed.checksum
    if pod.within or not (pod.one_each or state.one_each):
        parsed.epoch_ended = False
        parsed.batch = pod.batch + (1 if again and not is_copy else 0) if is_same else 1


def _end_former(state: LogState, pod: PodState, epoch: int) -> None:
    """The first line of all did end its epoch."""
    if state.lead != pod.name:
        return
    for points in (state.losses, *(series.points for series in state.series)):
        _end_last(points, epoch)


def _end_last(points: list[LossPoint], epoch: int) -> None:
    if points and epoch_index(points[-1]) == epoch:
        points[-1] = replace(points[-1], epoch=epoch + 1.0)
