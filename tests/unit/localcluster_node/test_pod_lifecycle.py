"""The pod's state machine: stories of events, and what must hold whatever happens."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localcluster.node import lifecycle as life
from localcluster.node.lifecycle import BackOff, Event, Instruction
from localcluster.node.pod import PodMachine
from localcluster.node.spec import parse_pod
from tests.unit.localcluster_node.pods import container, moment, pod

BACK_OFF = BackOff(base_seconds=10, cap_seconds=300, reset_seconds=600)
SIDECAR = {"restartPolicy": "Always"}


class Story:
    """A machine that is told events; it starts processes without being asked twice and keeps what else it says."""

    def __init__(self, raw: dict[str, Any], recovered: dict[str, Any] | None = None) -> None:
        self.machine = PodMachine(parse_pod(raw), BACK_OFF, moment(0), recovered)
        self.now = 0.0
        self.running: dict[str, int] = {}
        self.said: list[Instruction] = []

    def tell(self, event: Event, at: float | None = None) -> "Story":
        """Tell an event and act on prepare and start as a machine on which all goes well."""
        self.now = self.now if at is None else at
        pending: list[Event] = [event]
        while pending:
            for each in self.machine.handle(pending.pop(0), moment(self.now)):
                self.said.append(each)
                if isinstance(each, life.Prepare):
                    pending.append(life.Prepared())
                elif isinstance(each, life.Start):
                    self.running[each.container] = each.attempt
                    pending.append(life.Started(each.container, each.attempt))
        return self

    def begin(self) -> "Story":
        """Let the first instant pass."""
        return self.tell(life.Tick())

    def exit(self, name: str, code: int, at: float | None = None) -> "Story":
        """Let a running container end."""
        return self.tell(life.Exited(name, self.running.pop(name), code), at)

    def heard(self) -> list[Instruction]:
        """Return what was said since the last call, without Events for the user."""
        said: list[Instruction] = [each for each in self.said if not isinstance(each, life.Tell)]
        self.said = []
        return said

    @property
    def status(self) -> dict[str, Any]:
        """The status now."""
        return self.machine.status(moment(self.now))

    @property
    def phase(self) -> str:
        """The phase now."""
        return str(self.status["phase"])

    def state(self, index: int = 0) -> dict[str, Any]:
        """The state of a main container."""
        found: dict[str, Any] = self.status["containerStatuses"][index]["state"]
        return found

    def condition(self, kind: str) -> str:
        """The status of a condition."""
        return str(next(each["status"] for each in self.status["conditions"] if each["type"] == kind))


@pytest.mark.parametrize(
    ("policy", "code", "phase", "runs_again"),
    [
        pytest.param("Never", 0, "Succeeded", False, id="a pod that never restarts succeeds with code 0"),
        pytest.param("Never", 3, "Failed", False, id="and fails with any other"),
        pytest.param("OnFailure", 0, "Succeeded", False, id="a pod restarted on failure succeeds with code 0"),
        pytest.param("OnFailure", 3, "Running", True, id="and is run again after a failure"),
        pytest.param("Always", 0, "Running", True, id="a pod that always restarts is run again after a success"),
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
    assert (list(story.running), story.phase, story.condition("Initialized")) == (["one"], "Pending", "False")
    story.exit("one", 0)
    assert list(story.running) == ["two"]
    story.exit("two", 0)
    assert (list(story.running), story.phase, story.condition("Initialized")) == (["main"], "Running", "True")


def test_an_init_container_that_fails_fails_a_pod_that_never_restarts() -> None:
    story = Story(pod(init=(container("one"),), restartPolicy="Never")).begin().exit("one", 1)
    assert (story.running, story.phase) == ({}, "Failed")


def test_an_init_container_that_fails_is_run_again_otherwise() -> None:
    story = Story(pod(init=(container("one"),), restartPolicy="Always")).begin().exit("one", 1)
    assert (list(story.running), story.phase) == (["one"], "Pending")


def test_the_startup_probe_of_a_sidecar_gates_what_comes_after_it() -> None:
    sidecar = container("side", startupProbe={"exec": {"command": ["true"]}}, **SIDECAR)
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


def test_sidecars_end_in_reverse_order_after_the_main_container_and_do_not_count() -> None:
    sides = (container("first", **SIDECAR), container("second", **SIDECAR))
    story = Story(pod(init=sides, restartPolicy="Never")).begin()
    story.heard()
    story.exit("main", 0)
    assert story.heard() == [life.EndProbes("main"), life.Signal("second", kill=False)]
    assert story.phase == "Running"
    story.exit("second", 143)
    assert story.heard() == [life.EndProbes("second"), life.Signal("first", kill=False)]
    story.exit("first", 137)
    assert story.phase == "Succeeded"


def test_a_deleted_pod_gets_its_grace_a_last_phase_and_then_goes() -> None:
    story = Story(pod()).begin()
    story.heard()
    story.tell(life.DeletionRequested(5), at=100)
    assert story.heard() == [life.Signal("main", kill=False)]
    assert story.machine.next_wake() == 105
    story.tell(life.Tick(), at=104.9)
    assert story.heard() == []
    story.tell(life.Tick(), at=105)
    assert story.heard() == [life.Signal("main", kill=True)]
    story.exit("main", 137)
    assert story.heard() == [life.EndProbes("main"), life.Discard()]
    assert story.phase == "Failed"


def test_a_deleted_pod_whose_container_ends_well_has_succeeded() -> None:
    story = Story(pod()).begin().tell(life.DeletionRequested(5)).exit("main", 0)
    assert story.phase == "Succeeded"


def test_sidecars_of_a_deleted_pod_wait_for_its_main_containers() -> None:
    story = Story(pod(init=(container("side", **SIDECAR),))).begin()
    story.heard()
    story.tell(life.DeletionRequested(30), at=10)
    assert story.heard() == [life.Signal("main", kill=False)]
    story.exit("main", 0, at=20)
    assert story.heard() == [life.EndProbes("main"), life.Signal("side", kill=False)]
    assert story.machine.next_wake() == 40


def test_a_second_deletion_can_only_shorten_the_grace() -> None:
    story = Story(pod()).begin().tell(life.DeletionRequested(30), at=0).tell(life.DeletionRequested(2), at=1)
    assert story.machine.next_wake() == 3
    story.tell(life.DeletionRequested(500), at=2)
    assert story.machine.next_wake() == 3


def test_a_grace_of_zero_kills_at_once() -> None:
    story = Story(pod()).begin()
    story.heard()
    story.tell(life.DeletionRequested(0))
    assert story.heard() == [life.Signal("main", kill=True)]


def test_a_pod_whose_object_vanished_is_killed_and_forgotten() -> None:
    story = Story(pod()).begin()
    story.heard()
    story.tell(life.Vanished())
    assert story.heard() == [life.Signal("main", kill=True)]
    assert story.machine.next_wake() is None
    story.exit("main", 137)
    assert story.heard() == [life.EndProbes("main"), life.Forget()]


def test_a_pre_stop_hook_comes_before_sigterm_and_leaves_it_two_seconds() -> None:
    story = Story(pod(container(lifecycle={"preStop": {"sleep": {"seconds": 9}}}))).begin()
    story.heard()
    story.tell(life.DeletionRequested(5), at=0)
    assert story.heard() == [life.RunHook("main", 0, 5)]
    story.tell(life.HookFinished("main", 0), at=5)
    assert story.heard() == [life.Signal("main", kill=False)]
    assert story.machine.next_wake() == 7


def test_a_failed_liveness_probe_ends_the_container_and_the_policy_runs_it_again() -> None:
    probe = {"httpGet": {"port": 1}, "terminationGracePeriodSeconds": 3}
    story = Story(pod(container(livenessProbe=probe), restartPolicy="Always")).begin()
    story.heard()
    story.tell(life.ProbeReport("main", 0, "liveness", healthy=False, message="refused"), at=10)
    assert story.heard() == [life.Signal("main", kill=False)]
    assert story.machine.next_wake() == 13
    story.exit("main", 143, at=11)
    assert story.running == {"main": 1}


def test_readiness_follows_the_probe_and_ends_with_the_run() -> None:
    story = Story(pod(container(readinessProbe={"tcpSocket": {"port": 1}}))).begin()
    assert story.condition("Ready") == "False"
    story.tell(life.ProbeReport("main", 0, "readiness", healthy=True))
    assert (story.condition("Ready"), story.condition("ContainersReady")) == ("True", "True")
    story.tell(life.ProbeReport("main", 0, "readiness", healthy=False))
    assert story.condition("Ready") == "False"


def test_news_of_an_earlier_run_changes_nothing() -> None:
    story = Story(pod(restartPolicy="Always")).begin().exit("main", 1)
    before = story.status
    story.tell(life.Exited("main", 0, 9)).tell(life.ProbeReport("main", 0, "liveness", healthy=False))
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
            life.StartFailed("main", "ErrImagePull", "unknown"), "ErrImagePull", "Pending", id="an unknown image waits"
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


def test_a_pod_past_its_deadline_fails_with_the_reason() -> None:
    story = Story(pod(activeDeadlineSeconds=60)).begin()
    assert story.machine.next_wake() == 60
    story.tell(life.Tick(), at=60).exit("main", 0)
    assert (story.phase, story.status["reason"]) == ("Failed", "DeadlineExceeded")


def test_a_rejected_pod_fails_without_container_states_and_goes_when_deleted() -> None:
    story = Story(pod())
    story.machine.reject("OutOfcpu", "too much")
    assert story.begin().heard() == []
    assert story.status == {"phase": "Failed", "reason": "OutOfcpu", "message": "too much"}
    assert story.tell(life.DeletionRequested(30)).heard() == [life.Discard()]


@pytest.mark.parametrize(
    ("policy", "phase", "restarts"),
    [
        pytest.param("Never", "Failed", 2, id="a pod that never restarts has failed"),
        pytest.param("Always", "Running", 3, id="any other is run again, and the restart is counted"),
    ],
)
def test_what_ran_under_an_earlier_agent_has_ended_with_it(policy: str, phase: str, restarts: int) -> None:
    written = {
        "startTime": "2025-12-31T23:00:00Z",
        "phase": "Running",
        "containerStatuses": [
            {"name": "main", "restartCount": 2, "state": {"running": {"startedAt": "2025-12-31T23:30:00Z"}}}
        ],
    }
    story = Story(pod(restartPolicy=policy), written).begin()
    status = story.status["containerStatuses"][0]
    assert (story.phase, status["restartCount"]) == (phase, restarts)
    ended = (status["state"] if phase == "Failed" else status["lastState"])["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "ContainerStatusUnknown")
    assert "node agent" in ended["message"]
    assert story.status["startTime"] == "2025-12-31T23:00:00Z"


def test_a_pod_that_had_ended_stays_as_it_was() -> None:
    first = Story(pod(restartPolicy="Never")).begin().exit("main", 4)
    second = Story(pod(restartPolicy="Never"), first.status).begin()
    assert (second.heard(), second.phase, second.machine.finished) == ([], "Failed", True)
    assert second.state()["terminated"]["exitCode"] == 4


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[str, int, float]]]:
    """Draw a pod and a list of (what happens, a number, seconds later)."""
    init = tuple(
        container(f"i{index}", **(SIDECAR if draw(st.booleans()) else {})) for index in range(draw(st.integers(0, 2)))
    )
    main = [container(f"m{index}") for index in range(draw(st.integers(1, 2)))]
    policy = draw(st.sampled_from(["Always", "OnFailure", "Never"]))
    what = st.sampled_from(["exit", "exit", "exit", "tick", "wake", "delete", "unhealthy"])
    steps = draw(st.lists(st.tuples(what, st.integers(0, 3), st.floats(0, 50)), max_size=25))
    return pod(*main, init=init, restartPolicy=policy, terminationGracePeriodSeconds=5), steps


@settings(max_examples=150, deadline=None)
@given(histories())
def test_whatever_happens_phases_are_final_starts_are_never_doubled_and_a_deleted_pod_goes(
    history: tuple[dict[str, Any], list[tuple[str, int, float]]],
) -> None:
    raw, steps = history
    story = Story(raw).begin()
    final: str | None = None
    deleted = False
    for what, number, later in steps:
        now = story.now + later
        names = sorted(story.running)
        if what == "exit" and names:
            story.exit(names[number % len(names)], number, at=now)
        elif what == "wake":
            story.tell(life.Tick(), at=max(now, story.machine.next_wake() or 0))
        elif what == "delete":
            deleted = True
            story.tell(life.DeletionRequested(number), at=now)
        elif what == "unhealthy" and names:
            name = names[number % len(names)]
            story.tell(life.ProbeReport(name, story.running[name], "liveness", healthy=False), at=now)
        else:
            story.tell(life.Tick(), at=now)
        assert final is None or story.phase == final
        final = story.phase if story.machine.finished else None
        starts = [(each.container, each.attempt) for each in story.said if isinstance(each, life.Start)]
        assert len(starts) == len(set(starts))
        assert not (story.machine.finished and story.running)
    while deleted and story.running:
        story.exit(min(story.running), 143)
    if deleted:
        assert story.said.count(life.Discard()) == 1
        assert story.phase in {"Succeeded", "Failed"}
