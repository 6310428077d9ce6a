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


def test_the_time_of_a_call_is_counted_from_half_a_millisecond_on() -> None:
    metrics = Metrics()
    metrics.calls.labels("filter").observe(0.0004)
    found = families(metrics)["call_seconds"].samples
    bounds = [
        each.labels["le"] for each in found if each.name.endswith("_bucket") and each.value == 1
    ]
    assert (bounds[0], bounds[-2:]) == ("0.0005", ["5.0", "+Inf"])
    assert samples(metrics, "call_seconds")["_count"] == ({"verb": "filter"}, 1.0)


def test_every_metric_says_in_a_sentence_what_it_is() -> None:
    metrics = Metrics()
    metrics.watch("leads", "1 while it leads.", lambda: 1.0)
    metrics.watch_by("waiting_gangs", "Gangs that wait.", "state", dict)
    for name, family in families(metrics).items():
        assert family.documentation.endswith("."), name
        assert " " in family.documentation, name
    assert families(metrics)["leads"].documentation == "1 while it leads."
    assert families(metrics)["waiting_gangs"].documentation == "Gangs that wait."


def test_a_watched_figure_is_read_whenever_the_metrics_are() -> None:
    metrics, figures = Metrics(), {"planned": 1.0, "queued": 2.0}
    metrics.watch("reservations", "Replicas with a reservation.", lambda: figures["planned"])
    metrics.watch_by("waiting_gangs", "Gangs that wait.", "state", lambda: figures)
    assert samples(metrics, "reservations") == {"": ({}, 1.0)}
    figures["planned"] = 3.0
    assert samples(metrics, "reservations") == {"": ({}, 3.0)}
    by_state = families(metrics)["waiting_gangs"]
    assert by_state.type == "gauge"
    found = [(each.name, each.labels, each.value) for each in by_state.samples]
    assert found == [
        ("optimus_extender_waiting_gangs", {"state": "planned"}, 3.0),
        ("optimus_extender_waiting_gangs", {"state": "queued"}, 2.0),
    ]


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
