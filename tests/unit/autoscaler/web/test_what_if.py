"""What other counts would mean for a job."""

from dataclasses import replace

import pytest

from autoscaler.web.copies import ClusterCopy, JobCopy
from autoscaler.web.feed import PageFeed
from autoscaler.web.page import create_page
from optimus.errors import NotReady
from optimus.interval.what_if import Question, WhatIf, answer
from optimus.jobs import CountBounds, Counts
from optimus.models.forecast import Forecast
from tests.unit.autoscaler.web.sample_cluster import AT, SampleCluster

PRICE = 40.0


def asked(counts: Counts, copy: ClusterCopy | None = None, **fields: object) -> WhatIf:
    copy = copy or SampleCluster(4).copy()
    found = copy.jobs["uid-0"]._replace(**fields)  # type: ignore[arg-type]  # the test's own fields
    forecast_at, snapshot = found.decided_at or copy.at, copy.observation.snapshot
    return answer(
        Question(found.job, found.forecast, counts, copy.at, forecast_at, PRICE, snapshot)
    )


def job(copy: ClusterCopy) -> tuple[JobCopy, Forecast]:
    found = copy.jobs["uid-0"]
    assert isinstance(found.forecast, Forecast)
    return found, found.forecast


def test_more_workers_are_done_earlier_by_the_forecast_with_the_price_of_the_rescale() -> None:
    copy = SampleCluster(4).copy()
    _, forecast = job(copy)
    found = asked(Counts(2, 6), copy, decided_at=AT)
    assert found.now is not None
    assert found.then is not None
    assert found.now.remaining.median == pytest.approx(forecast.at(Counts(2, 2)), abs=0.1)
    expected = forecast.at(Counts(2, 6)) + PRICE
    assert found.then.remaining.median == pytest.approx(expected, abs=0.1)
    assert found.then.ends_at == AT + found.then.remaining.median
    saved = forecast.at(Counts(2, 2)) - expected
    assert found.saves_seconds == pytest.approx(saved, abs=0.2)
    assert found.more == {"cpu": 16_000, "memory": 32 * 2**30, "nvidia.com/gpu": 4}


def test_what_was_done_since_the_forecast_is_not_left_at_other_counts_either() -> None:
    copy = SampleCluster(4).copy()
    _, forecast = job(copy)
    half = forecast.at(Counts(2, 2)) / 2
    found = asked(Counts(2, 6), copy, decided_at=AT - half)
    assert found.now is not None
    assert found.then is not None
    assert found.now.remaining.median == pytest.approx(half, rel=0.01)
    expected = forecast.at(Counts(2, 6)) / 2 + PRICE
    assert found.then.remaining.median == pytest.approx(expected, rel=0.01)


def test_the_present_counts_cost_no_rescale() -> None:
    found = asked(Counts(2, 2))
    assert (found.price_seconds, found.saves_seconds, found.more) == (0.0, 0.0, {})


@pytest.mark.parametrize(("workers", "fits"), [(4, True), (1000, False)])
def test_it_says_whether_free_capacity_holds_the_job(workers: int, fits: bool) -> None:
    assert asked(Counts(2, workers)).fits is fits


def test_counts_out_of_bounds_are_named() -> None:
    copy = SampleCluster(4).copy()
    found = copy.jobs["uid-0"].job
    assert found is not None
    bounded = replace(found, bounds=CountBounds(max_workers=3))
    assert asked(Counts(2, 3), copy, job=bounded).allowed
    assert not asked(Counts(2, 4), copy, job=bounded).allowed


def test_without_a_forecast_it_says_why() -> None:
    found = asked(Counts(2, 4), forecast=NotReady("3 samples, 5 needed"))
    assert found.then is None
    assert "3 samples, 5 needed" in found.problem
    assert "forecast" in asked(Counts(2, 4), forecast=None).problem


@pytest.mark.parametrize("query", ["", "workers=x", "workers=-3&ps=0", "workers=999999999"])
def test_strange_counts_are_answered(query: str) -> None:
    feed = PageFeed()
    feed.take(SampleCluster(4).copy())
    client = create_page(feed).test_client()
    answered = client.get(f"/api/what-if/team-a/resnet-0?{query}")
    assert answered.status_code == 200
    found = answered.get_json()["then"]
    assert 1 <= found["ps"] <= 10_000
    assert 1 <= found["workers"] <= 10_000
    assert client.get("/api/what-if/team-a/none").status_code == 404
