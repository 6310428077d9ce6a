"""What a user reads in the profile."""

import json

import msgspec

from autoscaler.cluster import Observation
from autoscaler.jobs.state import TrackedJob
from autoscaler.profile.status import _status_of, status_of
from optimus.kube.pods import decode_pod
from optimus.kube.waiting_events import Wait
from optimus.models.forecast import Forecast, NoWorkLeft
from optimus.snapshot import ClusterSnapshot
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import START_AT, pod_of, tf_job


@cases(
    ("fraction", "goal_met", "percent"),
    {
        "rounded": (0.426, False, 43),
        "not done is never 100": (0.999, False, 99),
        "done": (1.0, True, 100),
    },
)
def test_100_percent_means_that_the_goal_is_met(
    fraction: float, goal_met: bool, percent: int
) -> None:
    seen = tf_job("a", 1, 2, target_loss="0.3").decoded()
    assert seen.active is not None
    state = TrackedJob.first_seen(seen, seen.active, None, START_AT)
    state.forecasts.current = Forecast(
        NoWorkLeft(), 12.4, goal_met=goal_met, progress_fraction=fraction
    )
    status = status_of(state, START_AT)
    assert (status.progress_percent, status.remaining_seconds) == (percent, 12)
    assert (status.phase, status.ps, status.workers, status.goal) == (
        "Waiting",
        1,
        2,
        "loss <= 0.3",
    )


def test_a_job_with_a_pod_that_waits_shows_why_and_no_longer_than_that() -> None:
    fake = tf_job("a", 1, 2, target_loss="0.3")
    seen = fake.decoded()
    assert seen.active is not None
    state = TrackedJob.first_seen(seen, seen.active, None, START_AT)
    text = "waits: 2 workers of 1 cpu lack a place"
    for node, shown in ((None, True), ("n1", False)):
        waiting = msgspec.structs.replace(
            decode_pod(json.dumps(pod_of(fake, "worker", 0, "{}", START_AT)).encode()), node=node
        )
        observation = Observation(
            START_AT,
            ClusterSnapshot.of(START_AT, (), (), ()),
            {seen.uid: seen},
            {seen.uid: (waiting,)},
            waits={seen.uid: Wait(text=text)},
        )
        state.update(observation, nodes_changed=False)
        assert (status_of(state, START_AT).reason == text) is shown


def test_what_is_kept_from_tick_to_tick_is_what_would_be_rebuilt() -> None:
    cluster = FakeCluster(cpus=12)
    harness = ControllerHarness(cluster)
    for name in ("a", "b"):
        cluster.submit(tf_job(name, 1, 1, target_loss="0.12", at_target="suspend"))
    shown, phases = list[object](), set[object]()
    for second in range(150):
        if second == 60:
            cluster.jobs["b"].annotate(pause="true")
        harness.run(1)
        for state in harness.controller.managed:
            status = status_of(state, cluster.at)
            assert status == _status_of(state, state.progress(cluster.at), cluster.at)
            phases.add(status.phase)
            shown.append(status)
    assert len(phases) >= 4
    # Most ticks bring a line of some log; in the others the status is the same object.
    assert len({id(each) for each in shown}) < len(shown)


def test_the_reason_of_a_job_that_is_held_says_until_when() -> None:
    cluster = FakeCluster()
    cluster.submit(tf_job("a", 1, 2, target_loss="0.001", pause="true"))
    harness = ControllerHarness(cluster)
    harness.run(30)
    held = "paused by its user: optimus.dl/pause, until its user removes the annotation"
    assert harness.status("a").reason == held
