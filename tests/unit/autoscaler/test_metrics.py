"""Metrics of an instance, as the alerts read them."""

from autoscaler.metrics import Metrics
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job


def value(metrics: Metrics, name: str) -> float | None:
    return metrics.registry.get_sample_value(f"optimus_autoscaler_{name}")


@cases(
    ("leads", "dry_run", "expected"),
    {
        "the one that acts leads": (True, False, (1.0, 0.0)),
        "a standby does not": (False, False, (0.0, 0.0)),
        "a dry run does not, whatever its Lease says": (True, True, (0.0, 1.0)),
    },
)
def test_who_leads(leads: bool, dry_run: bool, expected: tuple[float, float]) -> None:
    metrics = Metrics()
    metrics.set_instance(leads=lambda: leads, dry_run=dry_run, interval_seconds=7200.0)
    assert (value(metrics, "leads"), value(metrics, "dry_run")) == expected
    assert value(metrics, "interval_seconds") == 7200.0


def test_when_an_interval_was_planned_is_said_in_seconds_since_1970(
    cluster: FakeCluster, harness: ControllerHarness
) -> None:
    assert value(harness.metrics, "last_interval_timestamp_seconds") == 0.0
    cluster.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    harness.run(60)
    planned_at = value(harness.metrics, "last_interval_timestamp_seconds")
    assert planned_at is not None
    now = cluster.at + cluster.day_offset
    assert now - 22 <= planned_at <= now  # every 20 s, and ticks of 2 s
    harness.run(30)
    again = value(harness.metrics, "last_interval_timestamp_seconds")
    assert again is not None
    assert again > planned_at
