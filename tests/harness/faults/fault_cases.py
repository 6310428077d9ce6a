"""Faults in the middle of a rescale that only a real API server meets, or that meet its watches.

What one call may be answered is tried at each call by tests/integration/fault_matrix."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from localcluster.faults.faults import (
    Calls,
    EndStream,
    Fault,
    Freeze,
    Restart,
)
from tests.harness.faults.processes import AUTOSCALER, EXTENDER

SUSPENDS = Calls("PATCH", r"/(?:tf|pytorch)jobs/", r'"suspend": ?true')
RESUMES = Calls("PATCH", r"/(?:tf|pytorch)jobs/", r'"suspend": ?false')
RESIZES = Calls("PATCH", "/tfjobs/", r'"spec": ?\{"tfReplicaSpecs"')
LISTS_PODS = Calls("GET", r"/namespaces/faults/pods\?.*labelSelector")
WATCHES_JOBS = Calls("GET", r"/tfjobs\?.*watch=true")
WATCHES_PODS = Calls("GET", r"/pods\?.*watch=true")
LISTS_JOBS = Calls("GET", r"/tfjobs\?limit=")


@dataclass(frozen=True)
class FaultCase:
    """Which process meets which fault in the middle of a rescale."""

    process: str
    fault: Fault
    cut: bool = False
    """Its watches are cut first, so that it opens them again."""

    then: Calls | None = None
    """What it must do."""


FAULT_CASES: Final[Mapping[str, FaultCase]] = {
    "all freezes when the job is suspended": FaultCase(AUTOSCALER, Fault(SUSPENDS, Freeze(3.0))),
    "the server is killed when the job is to be resumed": FaultCase(
        AUTOSCALER, Fault(RESUMES, Restart())
    ),
    "the watch of jobs ends as too old": FaultCase(
        AUTOSCALER,
        Fault(WATCHES_JOBS, EndStream(after_lines=1, code=410)),
        cut=True,
        then=LISTS_JOBS,
    ),
    "the extender's watch of pods is cut twice": FaultCase(
        EXTENDER, Fault(WATCHES_PODS, EndStream(after_lines=3), times=2), cut=True
    ),
}
