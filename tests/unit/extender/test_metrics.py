"""What Prometheus reads of the extender: names, labels, buckets and help."""

import logging
from collections.abc import Callable

import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from extender.metrics import FaultHandler, Metrics


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


COUNTERS: dict[str, tuple[str | None, Callable[[Metrics], object]]] = {
    "errors": ("verb", lambda metrics: metrics.errors.labels("x").inc(2)),
    "nodes_offered": (None, lambda metrics: metrics.nodes_in.inc(2)),
    "nodes_kept": (None, lambda metrics: metrics.nodes_out.inc(2)),
    "refusals": ("cause", lambda metrics: metrics.refusals.labels("x").inc(2)),
    "searches": (None, lambda metrics: metrics.searches.inc(2)),
    "faults": ("where", lambda metrics: metrics.faults.labels("x").inc(2)),
    "nominations": ("outcome", lambda metrics: metrics.nominations.labels("x").inc(2)),
    "preemptions": ("outcome", lambda metrics: metrics.preemptions.labels("x").inc(2)),
    "preempted_jobs": (None, lambda metrics: metrics.preempted.inc(2)),
}


@pytest.mark.parametrize("name", COUNTERS)
def test_a_counter_has_its_name_and_its_label(name: str) -> None:
    label, count = COUNTERS[name]
    metrics = Metrics()
    count(metrics)
    labels = {} if label is None else {label: "x"}
    assert samples(metrics, name) == {"_total": (labels, 2.0)}


def test_the_time_of_a_call_is_counted_from_half_a_millisecond_on() -> None:
    metrics = Metrics()
    metrics.calls.labels("filter").observe(0.0004)
    found = families(metrics)["call_seconds"].samples
    bounds = [
        each.labels["le"] for each in found if each.name.endswith("_bucket") and each.value == 1
    ]
    assert (bounds[0], bounds[-2:]) == ("0.0005", ["5.0", "+Inf"])
    assert samples(metrics, "call_seconds")["_count"] == ({"verb": "filter"}, 1.0)


def test_the_wait_of_a_gang_is_counted_up_to_an_hour() -> None:
    metrics = Metrics()
    metrics.gang_wait.observe(3600.0)
    found = families(metrics)["gang_wait_seconds"].samples
    buckets = {each.labels["le"]: each.value for each in found if each.name.endswith("_bucket")}
    assert (buckets["1.0"], buckets["1800.0"], buckets["3600.0"]) == (0.0, 0.0, 1.0)
    assert samples(metrics, "gang_wait_seconds")["_sum"] == ({}, 3600.0)


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


def test_two_processes_in_one_do_not_share_their_counters() -> None:
    first, second = Metrics(), Metrics()
    first.searches.inc()
    first.watch("leads", "1 while it leads.", lambda: 1.0)
    second.watch("leads", "1 while it leads.", lambda: 0.0)
    assert samples(first, "searches")["_total"] == ({}, 1.0)
    assert samples(second, "searches")["_total"] == ({}, 0.0)
    assert samples(second, "leads") == {"": ({}, 0.0)}


@pytest.mark.parametrize(
    ("level", "more", "counted"),
    [
        pytest.param(logging.ERROR, {}, ["test_metrics"], id="by its module"),
        pytest.param(logging.ERROR, {"where": "filter"}, ["filter"], id="by what it names"),
        pytest.param(logging.WARNING, {}, [], id="no fault of ours"),
    ],
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
