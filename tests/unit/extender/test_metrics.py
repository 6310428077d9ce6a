"""What Prometheus reads of the extender: names, labels, buckets and help."""

import logging

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from extender.metrics import FaultHandler, Metrics
from tests.cases import cases


def families(metrics: Metrics) -> dict[str, Metric]:
    """Every metric by its name without `optimus_extender_`, as Prometheus parses it."""
    found = text_string_to_metric_families(metrics.text().decode())
    return {each.name.removeprefix("optimus_extender_"): each for each in found}


def samples(metrics: Metrics, name: str) -> dict[str, tuple[dict[str, str], float]]:
    """The last labels and value of each series of a metric, by the part that follows its name."""
    family = families(metrics)[name]
    return {
        each.name.removeprefix(family.name): (each.labels, each.value)
        for each in family.samples
        if not each.name.endswith("_created")
    }


def test_every_metric_says_in_a_sentence_what_it_is() -> None:
    metrics = Metrics()
    metrics.watch("leads", "1 while it leads.", lambda: 1.0)
    metrics.watch_by("waiting_gangs", "Gangs that wait.", "state", dict)
    for name, family in families(metrics).items():
        assert family.documentation.endswith("."), name
        assert " " in family.documentation, name
    assert families(metrics)["leads"].documentation == "1 while it leads."
    assert families(metrics)["waiting_gangs"].documentation == "Gangs that wait."


@cases(
    ("level", "more", "counted"),
    {
        "by its module": (logging.ERROR, {}, ["test_metrics"]),
        "by what it names": (logging.ERROR, {"where": "filter"}, ["filter"]),
        "no fault of ours": (logging.WARNING, {}, []),
    },
)
def test_a_traceback_is_counted_by_where_it_was_logged(
    level: int, more: dict[str, str], counted: list[str]
) -> None:
    faults: list[str] = []
    log, handler = logging.getLogger("of this test alone"), FaultHandler(faults.append)
    log.addHandler(handler)
    try:
        raise RuntimeError("broken")
    except RuntimeError:
        log.log(level, "failed", exc_info=True, extra=more)
    log.error("without a traceback")
    log.removeHandler(handler)
    assert faults == counted
