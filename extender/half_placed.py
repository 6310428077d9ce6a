"""Jobs of which a part is bound, while the rest fits nowhere.

The autoscaler takes such a job back where it manages it. Other jobs stay so, since the extender
deletes no pod. Their users get an Event that says what would help.
"""

from dataclasses import dataclass

from extender.job_events import Notice
from optimus.kube.events import EventType


@dataclass(frozen=True, slots=True)
class HalfPlaced:
    """A job that is bound in part, and why the rest is not planned."""

    kind: str
    namespace: str
    name: str
    uid: str
    bound: int
    pods: int
    reason: str

    @property
    def message(self) -> str:
        """What has happened, and what would help."""
        return (
            f"{self.bound} of {self.pods} pods are bound and hold their resources; the rest waits:"
            f" {self.reason}. Free capacity on the nodes that its pods may use, or suspend and"
            " resume the job so that it is placed again as a whole"
        )

    def notice(self, after_seconds: float) -> Notice:
        """The notice for its user, due once it has been so for this long."""
        return Notice(
            self.kind,
            self.namespace,
            self.name,
            self.uid,
            EventType.WARNING,
            "HalfPlaced",
            self.message,
            self.reason,
            after_seconds,
        )
