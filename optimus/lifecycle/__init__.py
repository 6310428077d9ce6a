"""The life of one job: what was done to it, what it received and cost, what its workload keeps."""

from optimus.lifecycle.record import (
    Avoided,
    JobRecord,
    counts_failed,
    not_profiled,
    profiling_began,
    received_until,
    recorded_history,
    saves_on_stop,
    saving_text,
    service_began,
    service_ended,
    went_on,
)

__all__ = (
    "Avoided",
    "JobRecord",
    "counts_failed",
    "not_profiled",
    "profiling_began",
    "received_until",
    "recorded_history",
    "saves_on_stop",
    "saving_text",
    "service_began",
    "service_ended",
    "went_on",
)
