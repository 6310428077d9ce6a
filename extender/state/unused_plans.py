"""A gang whose plans are not used pauses, twice as long after each of them."""

from typing import Final

ONE_PLAN_SECONDS: Final = 30.0
"""The pods of one plan fail one by one: within this time they count once."""

FIRST_PAUSE_SECONDS: Final = 120.0
"""After the second plan of which nothing was bound."""

LONGEST_PAUSE_SECONDS: Final = 3600.0
_MOST_DOUBLINGS: Final = 20


class UnusedPlans:
    """Kept by job. Not thread-safe; time is an argument (monotonic, in seconds)."""

    def __init__(self) -> None:
        self._unused: dict[str, tuple[int, float]] = {}
        """By job UID, how often in a row a plan was not used, and the last time."""

    def unused(self, job_uid: str, now: float) -> float:
        """A gang's plan has ended without a binding; returns how long the gang pauses, in
        seconds."""
        times, last = self._unused.get(job_uid, (0, float("-inf")))
        if now - last > ONE_PLAN_SECONDS:
            times = min(times + 1, _MOST_DOUBLINGS)
            self._unused[job_uid] = times, now
        if times == 1:
            return 0.0
        return min(FIRST_PAUSE_SECONDS * 2.0 ** (times - 2), LONGEST_PAUSE_SECONDS)

    def used(self, job_uid: str) -> None:
        """A pod of the job is bound, or the job has changed or is gone."""
        self._unused.pop(job_uid, None)
