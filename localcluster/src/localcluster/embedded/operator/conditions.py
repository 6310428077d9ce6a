"""A job's conditions: Failed is for good, and Running and Restarting take each other's place.

A status here is never changed in place: each function returns another one.
"""

from localcluster.embedded.operator.jobs import Json


def is_true(status: Json, kind: str) -> bool:
    """Whether a condition holds."""
    return any(
        each["type"] == kind and each["status"] == "True" for each in status.get("conditions") or ()
    )


def is_finished(status: Json) -> bool:
    """Whether the job has ended, in whatever way."""
    return is_true(status, "Succeeded") or is_true(status, "Failed")


def find(status: Json, kind: str) -> Json | None:
    """A condition, whatever its status."""
    return next((each for each in status.get("conditions") or () if each["type"] == kind), None)


def with_condition(
    status: Json, now: str, kind: str, reason: str, message: str, *, true: bool = True
) -> Json:
    """The status with a condition set, at the end of the list, unless it is as it should be
    already."""
    value = "True" if true else "False"
    before = find(status, kind)
    if is_true(status, "Failed") or (
        before and (before["status"], before["reason"]) == (value, reason)
    ):
        return status
    moved = before["lastTransitionTime"] if before and before["status"] == value else now
    condition = {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message,
        "lastUpdateTime": now,
        "lastTransitionTime": moved,
    }
    return {**status, "conditions": [*_others(status, kind), condition]}


def _others(status: Json, kind: str) -> list[Json]:
    replaced = {"Restarting": "Running", "Running": "Restarting"}.get(kind, "")
    left = [each for each in status.get("conditions") or () if each["type"] not in (kind, replaced)]
    if kind in ("Failed", "Succeeded"):
        return [{**each, "status": "False"} if each["type"] == "Running" else each for each in left]
    return left
