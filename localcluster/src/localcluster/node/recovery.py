"""What a new agent makes of a status that an earlier one wrote: the processes of that agent ended
with it."""

from datetime import UTC, datetime
from typing import Any

from localcluster.node.lifecycle import Moment, Record, StatusJson, Terminated, Waiting

_LOST = (
    "The container's process ended together with the node agent that ran it; the agent has "
    "been started again"
)


def recover(status: StatusJson, records: list[Record], now: Moment) -> Moment:
    """Fill the records from a written status and return since when the pod has been active on the
    node.

    A container that was running is taken as ended with exit code 137 (reason
    ContainerStatusUnknown, the name that a kubelet has for it); its restart policy then decides.
    """
    written = [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]
    by_name = {each["name"]: each for each in written}
    for record in records:
        found = by_name.get(record.plan.name)
        if found is not None:
            _recover_container(record, found, now)
    started = parse_time(status.get("startTime"))
    if started is None:
        return now
    return Moment(started, now.seconds - max(0.0, (now.wall - started).total_seconds()))


def parse_time(text: str | None) -> datetime | None:
    """Read an RFC 3339 instant of the API server; None stays None."""
    return None if not text else datetime.fromisoformat(text).astimezone(UTC)


def _recover_container(record: Record, written: StatusJson, now: Moment) -> None:
    state = written.get("state") or {}
    record.attempt = int(written.get("restartCount") or 0)
    last = (written.get("lastState") or {}).get("terminated")
    if last:
        record.last = _terminated(last, record.attempt - 1, now)
        record.launched = True
    if "running" in state:
        since = parse_time(state["running"].get("startedAt"))
        record.state = Terminated(
            137, "ContainerStatusUnknown", since, now.wall, _LOST, record.attempt
        )
    elif "terminated" in state:
        record.state = _terminated(state["terminated"], record.attempt, now)
    elif last:
        record.last = _terminated(last, record.attempt, now)
        record.state = Waiting("ContainerCreating")
        return
    else:
        return
    record.launched, record.ended_seconds = True, now.seconds


def _terminated(written: dict[str, Any], attempt: int, now: Moment) -> Terminated:
    return Terminated(
        exit_code=int(written.get("exitCode") or 0),
        reason=str(written.get("reason") or "Error"),
        started_at=parse_time(written.get("startedAt")),
        finished_at=parse_time(written.get("finishedAt")) or now.wall,
        message=str(written.get("message") or ""),
        attempt=attempt,
    )
