"""The extender's metrics, in Prometheus' text format."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector

_CALL_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1, 5)
_WAIT_SECONDS = (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600)


class Metrics:
    """Counters of one process, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.calls = self._histogram(
            "call_seconds", "Time taken by one call of kube-scheduler.", _CALL_SECONDS, "verb"
        )
        self.errors = self._counter("errors", "Calls that were answered with an error.", "verb")
        self.nodes_in = self._counter("nodes_offered", "Nodes offered to filter.")
        self.nodes_out = self._counter("nodes_kept", "Nodes left by filter.")
        self.refusals = self._counter("refusals", "Pods refused by filter, by cause.", "cause")
        self.gang_wait = self._histogram(
            "gang_wait_seconds",
            "From the creation of a gang's last pod until all its pods are bound.",
            _WAIT_SECONDS,
        )
        self.searches = self._counter(
            "searches", "Waiting gangs that nodes were searched for, found or not."
        )
        self.faults = self._counter(
            "faults", "Internal errors that were caught, so that the process goes on.", "where"
        )
        self.gangs_bound = self._counter(
            "gangs_bound",
            "Gangs of which the rest was bound here, or why not; and bindings that failed.",
            "outcome",
        )
        self.requeues = self._counter(
            "requeues", "Pods that were made to be tried again.", "outcome"
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"optimus_extender_{name}_total", text, labels, registry=self._registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        name = f"optimus_extender_{name}"
        return Histogram(name, text, labels, buckets=buckets, registry=self._registry)

    def watch(self, name: str, text: str, read: Callable[[], float]) -> None:
        """A figure that is read whenever the metrics are."""
        Gauge(f"optimus_extender_{name}", text, registry=self._registry).set_function(read)

    def watch_by(
        self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        """The same for a figure by the values of a label."""
        self._registry.register(_LabelledGauge(f"optimus_extender_{name}", text, label, read))

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return generate_latest(self._registry)


class _LabelledGauge(Collector):
    """A gauge that is read whenever the metrics are."""

    def __init__(
        self, name: str, text: str, label: str, read: Callable[[], Mapping[str, float]]
    ) -> None:
        self._name, self._text, self._label, self._read = name, text, label, read

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """The figures now."""
        family = GaugeMetricFamily(self._name, self._text, labels=[self._label])
        for value, figure in self._read().items():
            family.add_metric([value], figure)
        yield family


class FaultHandler(logging.Handler):
    """Counts internal errors: code that catches one to keep a thread running logs its traceback.

    They are counted by the name that the record brings as ``where``, else by its module."""

    def __init__(self, count: Callable[[str], None]) -> None:
        super().__init__(logging.ERROR)
        self._count = count

    def emit(self, record: logging.LogRecord) -> None:
        """Count a record with a traceback."""
        if record.exc_info:
            self._count(getattr(record, "where", record.module))
