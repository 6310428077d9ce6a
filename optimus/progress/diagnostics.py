"""Sentences for users whose log cannot be used as it is.

They count nothing that grows: each becomes an Event, and one that changes would be told again and
again."""

from typing import Final

from optimus.progress.options import LogFormatOptions
from optimus.progress.state import LogState

_LOSSLESS_LINES: Final = 20
_UNREAD_LINES: Final = 200
_BAD_LOSSES: Final = 3
_HELP: Final = (
    "name it with the annotation optimus.dl/loss-metric, or describe it with "
    "optimus.dl/metrics-format"
)


def complaint(state: LogState, rules: LogFormatOptions) -> str | None:
    """What is wrong with the job's log, and what would help; ``None`` where nothing is."""
    if state.bad_losses >= _BAD_LOSSES:
        return "the last losses in the log are nan or infinite: training may have diverged"
    if state.losses:
        return None
    wanted = f"named {rules.loss_metric!r} " if rules.loss_metric else ""
    if state.lossless >= _LOSSLESS_LINES:
        names = f" (it has {', '.join(state.metrics)})" if state.metrics else ""
        return f"no training loss {wanted}was found in the log's lines of progress{names}: {_HELP}"
    if state.unread_lines >= _UNREAD_LINES:
        return f"no training loss {wanted}was found in more than {_UNREAD_LINES} log lines: {_HELP}"
    return None
