"""The figures by which an interval is planned."""

from dataclasses import dataclass, field

from optimus.interval.profiling import ProfilingRules
from optimus.placement.queue_order import AGE_LIMIT_SECONDS


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalConfig:
    """When a change of counts is worth a restart, and how often a job may be restarted."""

    rescale_seconds: float = 60.0
    """What one rescale costs a job: no training from the suspension until all its pods run again,
    and the steps since its checkpoint. Default: pods of cached images start in half a minute, and
    as much again is lost on both sides."""

    hysteresis_fraction: float = 0.05
    """A change must save this fraction of the job's remaining time beyond its own cost. Unit: none.
    Default: speeds are predicted to several percent, and a gain that may be noise is not worth a
    restart."""

    most_rescales: int = 20
    """After this many rescales a job never grows again; it still shrinks where a waiting job needs
    the room. Default: the paper (section 7) asks for a cap and names none; 20 restarts of a minute
    are a third of an hour."""

    least_seconds_between_rescales: float = 300.0
    """A job that was just rescaled is left in peace for so long, whatever the gain. Default: half
    an interval, so that two early intervals in a row do not restart a job twice."""

    most_tries: int = 50_000
    """How often an interval tries whether something fits when others give room. Default: each try
    takes a tenth of a millisecond, so that the largest cluster is decided in seconds, whatever
    waits."""

    waiting_age_limit_seconds: float = AGE_LIMIT_SECONDS
    """A waiting job older than this comes before smaller ones. Default: that of the extender, which
    binds the pods in the same order."""

    profiling: ProfilingRules = field(default_factory=ProfilingRules)
    """How much is spent on measuring: it tells when a job's profiling is over."""
