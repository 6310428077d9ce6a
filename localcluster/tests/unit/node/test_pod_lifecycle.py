"""The pod's state machine while the pod runs: restarts, init containers, sidecars, probes, failed
starts."""

import pytest

from localcluster.node import lifecycle as life
from localcluster.node.pod_spec import parse_pod
from localcluster.node.state_machine import PodMachine
from tests.unit.node.pods import container, moment, pod
from tests.unit.node.story import BACK_OFF, SIDECAR, Story


@pytest.mark.parametrize(
    ("policy", "code", "phase", "runs_again"),
    [
        pytest.param(
            "Never", 0, "Succeeded", False, id="a pod that never restarts succeeds with code 0"
        ),
        pytest.param("Never", 3, "Failed", False, id="and fails with any other"),
        pytest.param(
            "OnFailure", 0, "Succeeded", False, id="a pod restarted on failure succeeds with code 0"
        ),
        pytest.param("OnFailure", 3, "Running", True, id="and is run again after a failure"),
        pytest.param(
            "Always",
            0,
            "Running",
            True,
            id="a pod that always restarts is run again after a success",
        ),
        pytest.param("Always", 1, "Running", True, id="and after a failure"),
    ],
)
def test_restart_policy(policy: str, code: int, phase: str, runs_again: bool) -> None:
    story = Story(pod(restartPolicy=policy)).begin()
    assert story.phase == "Running"
    story.exit("main", code, at=5)
    assert (story.phase, "main" in story.running) == (phase, runs_again)
    assert story.status["containerStatuses"][0]["restartCount"] == int(runs_again)


def test_the_first_restart_is_immediate_then_delays_double_up_to_the_cap() -> None:
    story = Story(pod(restartPolicy="Always")).begin()
    at, delays = 0.0, []
    for _ in range(8):
        at += 1
        story.exit("main", 1, at=at)
        wake = story.machine.next_wake()
        if wake is None:
            delays.append(0.0)
            continue
        assert story.state()["waiting"]["reason"] == "CrashLoopBackOff"
        assert "back-off" in story.state()["waiting"]["message"]
        delays.append(wake - at)
        at = wake
        story.tell(life.Tick(), at=at)
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]


def test_a_long_run_starts_the_back_off_anew() -> None:
    story = Story(pod(restartPolicy="Always")).begin()
    story.exit("main", 1, at=1).exit("main", 1, at=2)
    assert "waiting" in story.state()
    story.tell(life.Tick(), at=12)
    story.exit("main", 1, at=12 + 600)
    assert "running" in story.state()


def test_a_container_in_back_off_counts_as_running_and_shows_its_last_end() -> None:
    story = Story(pod(restartPolicy="Always")).begin()
    story.exit("main", 1, at=1).exit("main", 7, at=2)
    status = story.status["containerStatuses"][0]
    assert story.phase == "Running"
    assert status["lastState"]["terminated"]["exitCode"] == 7
    assert not status["ready"]


def test_init_containers_run_one_after_another_before_the_rest() -> None:
    story = Story(pod(init=(container("one"), container("two")))).begin()
    assert (list(story.running), story.phase, story.condition("Initialized")) == (
        ["one"],
        "Pending",
        "False",
    )
    story.exit("one", 0)
    assert list(story.running) == ["two"]
    story.exit("two", 0)
    assert (list(story.running), story.phase, story.condition("Initialized")) == (
        ["main"],
        "Running",
        "True",
    )


def test_an_init_container_that_fails_fails_a_pod_that_never_restarts() -> None:
    story = Story(pod(init=(container("one"),), restartPolicy="Never")).begin().exit("one", 1)
    assert (story.running, story.phase) == ({}, "Failed")


def test_an_init_container_that_fails_is_run_again_otherwise() -> None:
    story = Story(pod(init=(container("one"),), restartPolicy="Always")).begin().exit("one", 1)
    assert (list(story.running), story.phase) == (["one"], "Pending")


def test_the_startup_probe_of_a_sidecar_gates_what_comes_after_it() -> None:
    sidecar = container("side", startupProbe={"httpGet": {"port": 1}}, **SIDECAR)
    story = Story(pod(init=(sidecar, container("one")))).begin()
    assert list(story.running) == ["side"]
    story.tell(life.ProbeReport("side", 0, "startup", healthy=True))
    assert list(story.running) == ["side", "one"]
    story.exit("one", 0)
    assert list(story.running) == ["side", "main"]


def test_a_sidecar_that_ends_is_run_again_beside_the_main_container() -> None:
    story = Story(pod(init=(container("side", **SIDECAR),), restartPolicy="Never")).begin()
    story.exit("side", 0, at=3)
    assert (set(story.running), story.phase) == ({"side", "main"}, "Running")


def test_a_failed_liveness_probe_ends_the_container_and_the_policy_runs_it_again() -> None:
    raw = pod(container(livenessProbe={"httpGet": {"port": 1}}), restartPolicy="Always")
    raw["spec"]["terminationGracePeriodSeconds"] = 3
    story = Story(raw).begin()
    story.heard()
    story.tell(life.ProbeReport("main", 0, "liveness", healthy=False, message="refused"), at=10)
    assert story.heard() == [life.Signal("main", kill=False)]
    assert story.machine.next_wake() == 13
    story.exit("main", 143, at=11)
    assert story.running == {"main": 1}


def test_readiness_follows_the_probe_and_ends_with_the_run() -> None:
    story = Story(pod(container(readinessProbe={"httpGet": {"port": 1}}))).begin()
    assert story.condition("Ready") == "False"
    story.tell(life.ProbeReport("main", 0, "readiness", healthy=True))
    assert (story.condition("Ready"), story.condition("ContainersReady")) == ("True", "True")
    story.tell(life.ProbeReport("main", 0, "readiness", healthy=False))
    assert story.condition("Ready") == "False"


def test_news_of_an_earlier_run_changes_nothing() -> None:
    story = Story(pod(restartPolicy="Always")).begin().exit("main", 1)
    before = story.status
    story.tell(life.Exited("main", 0, 9)).tell(
        life.ProbeReport("main", 0, "liveness", healthy=False)
    )
    assert story.status == before


def test_preparation_that_fails_is_tried_again_and_says_why() -> None:
    machine = PodMachine(parse_pod(pod()), BACK_OFF, moment(0))
    assert life.Prepare() in machine.handle(life.Tick(), moment(0))
    machine.handle(life.PrepareFailed("ContainerCreating", 'configmap "c" not found'), moment(0))
    waiting = machine.status(moment(0))["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ContainerCreating", "message": 'configmap "c" not found'}
    assert machine.next_wake() == 1
    assert life.Prepare() in machine.handle(life.Tick(), moment(1))


@pytest.mark.parametrize(
    ("event", "reason", "phase"),
    [
        pytest.param(
            life.StartFailed("main", "ErrImagePull", "unknown"),
            "ErrImagePull",
            "Pending",
            id="an unknown image waits",
        ),
        pytest.param(
            life.StartFailed("main", "StartError", "no such program", exit_code=128),
            "StartError",
            "Failed",
            id="a program that is not there is a run that failed",
        ),
    ],
)
def test_a_start_that_fails(event: life.StartFailed, reason: str, phase: str) -> None:
    machine = PodMachine(parse_pod(pod(restartPolicy="Never")), BACK_OFF, moment(0))
    machine.handle(life.Tick(), moment(0))
    machine.handle(life.Prepared(), moment(0))
    machine.handle(event, moment(0))
    status = machine.status(moment(0))
    state = next(iter(status["containerStatuses"][0]["state"].values()))
    assert (state["reason"], status["phase"]) == (reason, phase)


def test_an_image_that_stays_unknown_is_backed_off() -> None:
    machine = PodMachine(parse_pod(pod()), BACK_OFF, moment(0))
    machine.handle(life.Tick(), moment(0))
    machine.handle(life.Prepared(), moment(0))
    machine.handle(life.StartFailed("main", "ErrImagePull", "unknown"), moment(0))
    assert machine.next_wake() == 10
    machine.handle(life.Tick(), moment(10))
    machine.handle(life.StartFailed("main", "ErrImagePull", "unknown"), moment(10))
    waiting = machine.status(moment(10))["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ImagePullBackOff", "message": "unknown"}
