"""The autoscaler's metrics, for Prometheus."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_PREFIX = "optimus_autoscaler_"


class Metrics:
    """The autoscaler's metrics."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.intervals = self._counter("intervals", "Intervals planned.")
        last = "When the last interval was planned, in seconds since 1970; 0: none yet."
        self.last_interval = self._gauge("last_interval_timestamp_seconds", last)
        seconds = "Seconds between two intervals, as it was set."
        self.interval_seconds = self._gauge("interval_seconds", seconds)
        self.decisions = self._counter("decisions", "Decisions, by action.", "action")
        self.rescales = self._counter("rescales", "Rescales that ended, by outcome.", "outcome")
        over = "Preemptions that are over, by how they ended."
        self.preemptions = self._counter("preemptions", over, "outcome")
        self.preempted = self._counter("preempted_jobs", "Jobs that were paused for a gang.")
        self.faults = self._counter("faults", "Internal errors, by place.", "where")
        refusals = "Writes that the API server refused, by kind."
        self.refusals = self._counter("api_refusals", refusals, "kind")
        self.planning_seconds = self._histogram("planning_seconds", "Time to plan one interval.")
        self.tick_seconds = self._histogram("tick_seconds", "Time of one tick.")
        self.jobs = self._gauge("jobs", "Managed jobs, by phase.", "phase")
        books = (
            "Seconds of managed jobs that run: sooner than at their own counts, stopped, redone."
        )
        self.books = self._gauge("books_seconds", books, "part")
        ended = "Seconds by which moved jobs ended sooner or later than at their own counts."
        self.ended_seconds = self._counter("ended_jobs_seconds", ended, "outcome")
        self.braked = self._gauge("jobs_not_moved", "Jobs that are not moved by the books.")
        lag = "Seconds since the log of a job's leading pod was read, of the job with the longest."
        self.log_lag = self._gauge("log_lag_seconds", lag)
        left_alone = "Jobs that set a goal and are not managed."
        self.left_alone = self._gauge("jobs_left_alone", left_alone)
        slow = "Workers that are far slower than the others of their job."
        self.stragglers = self._gauge("stragglers", slow)
        self.leads = self._gauge("leads", "1 while this instance holds the Lease and acts.")
        self.dry_run = self._gauge("dry_run", "1 where this instance only decides and prints.")
        silence = "Seconds since the last answer of the API server, by kind of object."
        self.cache_silence = self._gauge("cache_silence_seconds", silence, "kind")

    def set_instance(
        self, *, leads: Callable[[], bool], dry_run: bool, interval_seconds: float
    ) -> None:
        """Set what this instance is. A dry run does not lead: it acts on nothing, and several of
        them may run beside the one instance that does."""
        self.leads.set_function(lambda: float(leads() and not dry_run))
        self.dry_run.set(dry_run)
        self.interval_seconds.set(interval_seconds)

    def _counter(self, name: str, help_text: str, *labels: str) -> Counter:
        return Counter(_PREFIX + name, help_text, labels, registry=self.registry)

    def _gauge(self, name: str, help_text: str, *labels: str) -> Gauge:
        return Gauge(_PREFIX + name, help_text, labels, registry=self.registry)

    def _histogram(self, name: str, help_text: str) -> Histogram:
        return Histogram(_PREFIX + name, help_text, registry=self.registry)
