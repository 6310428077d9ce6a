"""What the autoscaler counts and measures, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    """The autoscaler's metrics; names begin with ``optimus_autoscaler_``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        prefix = "optimus_autoscaler_"
        self.intervals = Counter(prefix + "intervals", "Intervals planned.", registry=self.registry)
        self.planning_seconds = Histogram(
            prefix + "planning_seconds", "Time to plan one interval.", registry=self.registry
        )
        self.tick_seconds = Histogram(
            prefix + "tick_seconds", "Time of one tick.", registry=self.registry
        )
        self.decisions = Counter(
            prefix + "decisions", "Decisions, by what they do.", ["action"], registry=self.registry
        )
        self.rescales = Counter(
            prefix + "rescales", "Rescales that ended, by how.", ["outcome"], registry=self.registry
        )
        self.faults = Counter(
            prefix + "faults",
            "Errors of this software's own, by where.",
            ["where"],
            registry=self.registry,
        )
        self.refusals = Counter(
            prefix + "api_refusals",
            "Writes that the API server did not do, by kind.",
            ["kind"],
            registry=self.registry,
        )
        self.jobs = Gauge(
            prefix + "jobs", "Managed jobs, by phase.", ["phase"], registry=self.registry
        )
        self.left_alone = Gauge(
            prefix + "jobs_left_alone",
            "Jobs that ask for management and do not get it.",
            registry=self.registry,
        )
        self.cache_silence = Gauge(
            prefix + "cache_silence_seconds",
            "Seconds since the API server was last heard of, by kind of object.",
            ["kind"],
            registry=self.registry,
        )
