"""The extender's metrics, in Prometheus' text format."""

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_CALL_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5)
_WAIT_SECONDS = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600)


class Metrics:
    """Counters of one process, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.calls = Histogram(
            "optimus_extender_call_seconds",
            "Time taken by one call of kube-scheduler.",
            ["verb"],
            buckets=_CALL_SECONDS,
            registry=registry,
        )
        self.errors = Counter(
            "optimus_extender_errors_total",
            "Calls that were answered with an error.",
            ["verb"],
            registry=registry,
        )
        self.nodes_in = Counter(
            "optimus_extender_nodes_offered_total", "Nodes offered to filter.", registry=registry
        )
        self.nodes_out = Counter(
            "optimus_extender_nodes_kept_total", "Nodes left by filter.", registry=registry
        )
        self.refusals = Counter(
            "optimus_extender_refusals_total",
            "Pods refused by filter, by cause.",
            ["cause"],
            registry=registry,
        )
        self.gang_wait = Histogram(
            "optimus_extender_gang_wait_seconds",
            "From a gang's last pod to its plan.",
            buckets=_WAIT_SECONDS,
            registry=registry,
        )
        self.nominations = Counter(
            "optimus_extender_nominations_total",
            "Nominations and other writes to pods' status.",
            ["outcome"],
            registry=registry,
        )

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A figure that is read whenever the metrics are."""
        Gauge(f"optimus_extender_{name}", text, registry=self._registry).set_function(read)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)
