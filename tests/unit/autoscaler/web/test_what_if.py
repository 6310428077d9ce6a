"""What other counts would mean for a job."""

from dataclasses import replace

import pytest

from autoscaler.web.copies import ClusterCopy, JobCopy
from autoscaler.web.feed import PageFeed
from autoscaler.web.page import create_page
from optimus.errors import NotReady
from optimus.interval import IntervalConfig
from optimus.interval.decision_settings import DecisionSettings
from optimus.jobs import CountBounds, Counts
from optimus.models.forecast import Forecast
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import Resources
from optimus.what_if.counts import CountsQuestion, DecisionBasis, WhatIf, answer
from tests.unit.autoscaler.web.sample_cluster import AT, SampleCluster, sample_display

PRICE = 40.0
SETTINGS = DecisionSettings(interval=IntervalConfig(rescale_seconds=PRICE))


def asked(counts: Counts, copy: ClusterCopy | None = None, **fields: object) -> WhatIf:
    copy = copy or SampleCluster(4).copy()
    found = copy.jobs["uid-0"]._replace(**fields)  # type: ignore[arg-type]  # the test's own fields
    known = DecisionBasis(found.forecast, found.decided_at or copy.at)
    snapshot = copy.observation.snapshot
    return answer(CountsQuestion(found.job, known, counts, copy.at, SETTINGS, snapshot))


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


def test_the_page_asks_by_the_settings_of_its_process() -> None:
    """The price of a restart, the least gain, the policy and the room kept for rescales."""
    feed, copy = PageFeed(), SampleCluster(4).copy()
    feed.take(copy)
    path = "/api/what-if/team-a/resnet-0?workers=3"
    cheap = replace(SETTINGS, interval=IntervalConfig(rescale_seconds=2.0))
    for settings, price in ((SETTINGS, PRICE), (cheap, 2.0)):
        found = (
            create_page(feed, settings, sample_display())
            .test_client()
            .get(path)
            .get_json()["answer"]
        )
        assert found["price_seconds"] == price
    demanding = IntervalConfig(rescale_seconds=2.0, hysteresis_fraction=0.99)
    asked_page = create_page(
        feed, replace(SETTINGS, interval=demanding), sample_display()
    ).test_client()
    found = asked_page.get(path).get_json()
    assert "(99 % and 2 s for the restart)" in found["answer"]["why_not_moved"]
    assert any("(99 % and 2 s for the restart)" in sentence for sentence in found["sentences"])
    held = copy.jobs["uid-0"]._replace(held="paused by its user")
    feed.take(replace(copy, jobs={**copy.jobs, "uid-0": held}))
    assert asked_page.get(path).get_json()["answer"]["why_not_moved"] == "paused by its user"


def at_least(copy: ClusterCopy, workers: int) -> ClusterCopy:
    """The first job may not have fewer workers."""
    found, _ = job(copy)
    assert found.job is not None
    bounded = replace(found.job, bounds=CountBounds(min_ps=2, min_workers=workers))
    return replace(copy, jobs={**copy.jobs, "uid-0": found._replace(job=bounded)})


def with_quota(copy: ClusterCopy, room: int, *uids: str) -> ClusterCopy:
    """A quota of pods for the jobs of these UIDs, of which each holds its 4 pods."""
    one = Resources(pods=1)
    charges = {uid: QuotaCharge(one, one, held=one * 4) for uid in uids}
    quota = Quota("team-a", "quota pods", ("pods",), Resources(pods=room), charges)
    snapshot = replace(copy.observation.snapshot, quotas=(quota,))
    return replace(copy, observation=replace(copy.observation, snapshot=snapshot))


def test_quotas_hold_back_other_counts() -> None:
    copy = with_quota(at_least(SampleCluster(4).copy(), 2), 4, "uid-0")
    found = asked(Counts(2, 6), copy)
    assert found.fits is False
    assert found.refusal.startswith("quota pods of namespace team-a leaves ")
    feed = PageFeed()
    feed.take(copy)
    other = (
        create_page(feed, DecisionSettings(), sample_display())
        .test_client()
        .get("/api/what-if/team-a/resnet-0?workers=6")
    )
    assert other.get_json()["answer"]["refusal"] == found.refusal


@pytest.mark.parametrize("query", ["", "workers=x", "workers=-3&ps=0", "workers=999999999"])
def test_strange_counts_are_answered(query: str) -> None:
    feed = PageFeed()
    feed.take(SampleCluster(4).copy())
    client = create_page(feed, DecisionSettings(), sample_display()).test_client()
    answered = client.get(f"/api/what-if/team-a/resnet-0?{query}")
    assert answered.status_code == 200
    found = answered.get_json()["answer"]["then"]
    assert 1 <= found["ps"] <= 10_000
    assert 1 <= found["workers"] <= 10_000
    assert client.get("/api/what-if/team-a/none").status_code == 404
