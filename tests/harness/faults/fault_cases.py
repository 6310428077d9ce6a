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

SUSPENDS = Calls("PATCH", "/tfjobs/", r'"suspend": ?true')
RESUMES = Calls("PATCH", "/tfjobs/", r'"suspend": ?false')
RESIZES = Calls("PATCH", "/tfjobs/", r'"spec": ?\{"tfReplicaSpecs"')
LISTS_PODS = Calls("GET", r"/namespaces/faults/pods\?.*labelSelector")
WATCHES_JOBS = Calls("GET", r"/tfjobs\?.*watch=true")
WATCHES_PODS = Calls("GET", r"/pods\?.*watch=true")
LISTS_JOBS = Calls("GET", r"/tfjobs\?limit=")
NOMINATES = Calls("PATCH", "/pods/[^/]+/status")


@dataclass(frozen=True)
class FaultCase:
    """Which process meets which fault in the middle of a rescale."""

    process: str
    fault: Fault
    cut: bool = False
    """Its watches are cut first, so that it opens them again."""

    then: Calls | None = None
    """What it must do."""

    nominates: bool = False
    """The fault meets nominations. Pods that wait are nominated: the job grows, and its scheduler
    is stopped until the fault has happened."""


def autoscaler(fault: Fault) -> FaultCase:
    return FaultCase(AUTOSCALER, fault)


def nominating(fault: Fault) -> FaultCase:
    return FaultCase(EXTENDER, fault, nominates=True)


def reopening(process: str, fault: Fault, then: Calls | None = None) -> FaultCase:
    return FaultCase(process, fault, cut=True, then=then)


FAULT_CASES: Final[Mapping[str, FaultCase]] = {
    "all freezes when the job is suspended": autoscaler(Fault(SUSPENDS, Freeze(3.0))),
    "the server is killed when the job is to be resumed": autoscaler(Fault(RESUMES, Restart())),
    "the watch of jobs ends as too old": reopening(
        AUTOSCALER, Fault(WATCHES_JOBS, EndStream(after_lines=1, code=410)), LISTS_JOBS
    ),
    "all freezes when the first pod is nominated": nominating(Fault(NOMINATES, Freeze(2.0))),
    "the extender's watch of pods is cut twice": reopening(
        EXTENDER, Fault(WATCHES_PODS, EndStream(after_lines=3), times=2)
    ),
}
