"""The feed between the loop and the page: what is sent, and that the loop never waits for it."""

import threading
from dataclasses import replace

import pytest

from autoscaler.web.copies import copy_of_profiles
from autoscaler.web.detail import Details
from autoscaler.web.feed import PageFeed, Update
from optimus.interval.decision_settings import DecisionSettings
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import tf_job
from tests.unit.autoscaler.web.sample_cluster import SampleCluster, sample_display


def update(feed: PageFeed, since: str = "") -> Update:
    found = feed.update(since)
    assert found is not None
    return found


def test_what_has_not_changed_is_not_sent_again() -> None:
    feed, cluster = PageFeed(), SampleCluster(20)
    feed.take(cluster.copy())
    first = update(feed)
    assert update(feed, first.version).rows == []
    feed.take(cluster.copy(1))
    second = update(feed, first.version)
    assert not second.reset
    assert 0 < len(second.rows) < 20


def test_a_job_that_is_gone_is_named_once() -> None:
    feed, cluster = PageFeed(), SampleCluster(5)
    feed.take(cluster.copy())
    first = update(feed)
    del cluster._copies["uid-3"]
    feed.take(cluster.copy(1))
    second = update(feed, first.version)
    assert second.gone == ["uid-3"]
    assert update(feed, second.version).gone == []
    assert update(feed).gone == [], "who asks for everything never knew it"


def test_versions_of_another_process_are_not_believed() -> None:
    feed, cluster = PageFeed(), SampleCluster(5)
    feed.take(cluster.copy())
    for since in ("", "3", "abc-3", "-", update(feed).version.partition("-")[0] + "-x"):
        found = update(feed, since)
        assert (found.reset, len(found.rows)) == (True, 5)


def test_one_job_that_cannot_be_shown_hides_no_other() -> None:
    feed, cluster = PageFeed(), SampleCluster(5)
    broken = cluster._copies["uid-2"]
    cluster._copies["uid-2"] = broken._replace(status=None)  # type: ignore[arg-type]  # on purpose
    feed.take(cluster.copy())
    assert len(update(feed).rows) == 4


def test_the_loop_never_waits_for_the_page() -> None:
    feed, cluster = PageFeed(), SampleCluster(5)
    feed.take(cluster.copy())
    published = threading.Event()

    def publish() -> None:
        feed.take(cluster.copy(1))
        published.set()

    with feed._changed:  # as a request holds it while it makes rows
        threading.Thread(target=publish, daemon=True).start()
        assert published.wait(180)


def test_rows_are_made_only_while_somebody_looks() -> None:
    times = [0.0]
    feed, cluster = PageFeed(timer=lambda: times[0]), SampleCluster(3)
    feed.take(cluster.copy())
    watched = [feed.is_watched]
    update(feed)
    for times[0] in (1.0, 3600.0):
        watched.append(feed.is_watched)
    assert watched == [False, True, False]


@pytest.mark.parametrize(("seconds", "said"), [(0.0, 0.0), (119.0, 0.0), (121.0, 121.0)])
def test_an_api_server_is_silent_only_past_the_limit_of_the_caches(
    seconds: float, said: float
) -> None:
    feed, copy = PageFeed(silent_limit_seconds=120.0), SampleCluster(3).copy()
    observation = replace(copy.observation, silent_seconds=seconds)
    feed.take(replace(copy, observation=observation))
    assert update(feed).silent_seconds == said


def trained() -> tuple[ControllerHarness, PageFeed]:
    cluster = FakeCluster()
    feed = PageFeed()
    harness = ControllerHarness(cluster, page=feed)
    cluster.submit(tf_job("a", 1, 1, target_loss="0.12", training_mode="sync"))
    cluster.submit(tf_job("broken", 1, 1, target_loss="low"))
    harness.run(160)
    return harness, feed


def test_the_loop_publishes_what_the_profiles_say() -> None:
    harness, feed = trained()
    copy = feed.copy
    assert copy is not None
    assert copy.leads
    job = next(each for each in copy.jobs.values() if each.key.name == "a")
    shown = harness.status("a")
    assert (job.status.phase, job.status.ps, job.status.reason) == (
        shown.phase,
        shown.ps,
        shown.reason,
    )
    assert job.progress is not None
    assert job.progress.losses
    update(feed)
    timeline = feed.timeline("uid-a")
    assert timeline.counts
    assert timeline.decisions
    assert {each.key.name for each in copy.jobs.values()} == {"a", "broken"}


def test_a_standby_shows_the_same_curve_from_the_profile() -> None:
    harness, feed = trained()
    leading = feed.copy
    assert leading is not None
    harness.cluster.pass_time(0.0)
    standby = copy_of_profiles(harness.cluster.observe(harness.cluster.at))
    assert not standby.leads
    mine, theirs = (each.jobs["uid-a"] for each in (standby, leading))
    assert mine.progress is None
    charts = [
        Details(DecisionSettings(), sample_display())
        .job(copy, job, PageFeed().timeline("none"))
        .charts[0]
        for copy, job in ((standby, mine), (leading, theirs))
    ]
    assert charts[0].name == charts[1].name == "loss"
    known = len(charts[0].k)
    assert known >= 5
    assert charts[0].value[: known - 1] == charts[1].value[: known - 1]
