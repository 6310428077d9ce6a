"""What the page is answered on other counts; what they mean is told in ``unit/what_if``."""

from dataclasses import replace

import pytest

from autoscaler.web.copies import ClusterCopy
from autoscaler.web.feed import PageFeed
from autoscaler.web.page import create_page
from optimus.interval import IntervalConfig
from optimus.interval.decision_settings import DecisionSettings
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import Resources
from tests.unit.autoscaler.web.sample_cluster import SampleCluster, sample_display

PRICE = 40.0
SETTINGS = DecisionSettings(interval=IntervalConfig(rescale_seconds=PRICE))


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
    assert "a move needs more than 99% (a restart costs 2 s)" in found["answer"]["why_not_moved"]
    assert any(
        "a move needs more than 99% (a restart costs 2 s)" in sentence
        for sentence in found["sentences"]
    )
    held = copy.jobs["uid-0"]._replace(held="paused by its user")
    feed.take(replace(copy, jobs={**copy.jobs, "uid-0": held}))
    assert asked_page.get(path).get_json()["answer"]["why_not_moved"] == "paused by its user"


def with_quota(copy: ClusterCopy, room: int, *uids: str) -> ClusterCopy:
    """A quota of pods for the jobs of these UIDs, of which each holds its 4 pods."""
    one = Resources(pods=1)
    charges = {uid: QuotaCharge(one, one, held=one * 4) for uid in uids}
    quota = Quota("team-a", "quota pods", ("pods",), Resources(pods=room), charges)
    snapshot = replace(copy.observation.snapshot, quotas=(quota,))
    return replace(copy, observation=replace(copy.observation, snapshot=snapshot))


def test_quotas_hold_back_other_counts() -> None:
    feed = PageFeed()
    feed.take(with_quota(SampleCluster(4).copy(), 4, "uid-0"))
    page = create_page(feed, DecisionSettings(), sample_display()).test_client()
    found = page.get("/api/what-if/team-a/resnet-0?workers=6").get_json()["answer"]
    assert found["fits"] is False
    assert found["refusal"].startswith("quota pods of namespace team-a leaves ")


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
