"""The pod's state machine while the pod runs: restarts, sidecars, probes, failed starts."""

from localcluster.node import lifecycle as life
from localcluster.node.pod_spec import parse_pod
from localcluster.node.state_machine import PodMachine
from tests.cases import cases
from tests.unit.node.machine_harness import BACK_OFF, SIDECAR, MachineHarness
from tests.unit.node.pods import container, moment, pod


@cases(
    ("policy", "code", "phase", "runs_again"),
    {
        "a pod that never restarts succeeds with code 0": ("Never", 0, "Succeeded", False),
        "and fails with any other": ("Never", 3, "Failed", False),
        "a pod restarted on failure succeeds with code 0": ("OnFailure", 0, "Succeeded", False),
        "and is run again after a failure": ("OnFailure", 3, "Running", True),
        "a pod that always restarts is run again after a success": ("Always", 0, "Running", True),
        "and after a failure": ("Always", 1, "Running", True),
    },
)
def test_restart_policy(policy: str, code: int, phase: str, runs_again: bool) -> None:
    harness = MachineHarness(pod(restartPolicy=policy)).begin()
    assert harness.phase == "Running"
    harness.exit("main", code, at=5)
    assert (harness.phase, "main" in harness.running) == (phase, runs_again)
    assert harness.status["containerStatuses"][0]["restartCount"] == int(runs_again)


def test_the_first_restart_is_immediate_then_delays_double_up_to_the_cap() -> None:
    harness = MachineHarness(pod(restartPolicy="Always")).begin()
    at, delays = 0.0, []
    for _ in range(8):
        at += 1
        harness.exit("main", 1, at=at)
        wake = harness.machine.next_wake()
        if wake is None:
            delays.append(0.0)
            continue
        assert harness.state()["waiting"]["reason"] == "CrashLoopBackOff"
        assert "back-off" in harness.state()["waiting"]["message"]
        delays.append(wake - at)
        at = wake
        harness.send(life.Tick(), at=at)
    assert delays == [0, 10, 20, 40, 80, 160, 300, 300]


def test_the_startup_probe_of_a_sidecar_gates_what_comes_after_it() -> None:
    sidecar = container("side", startupProbe={"httpGet": {"port": 1}}, **SIDECAR)
    harness = MachineHarness(pod(init=(sidecar, container("next", **SIDECAR)))).begin()
    assert (list(harness.running), harness.phase, harness.condition("Initialized")) == (
        ["side"],
        "Pending",
        "False",
    )
    harness.send(life.ProbeReport("side", 0, "startup", healthy=True))
    assert list(harness.running) == ["side", "next", "main"]
    assert (harness.phase, harness.condition("Initialized")) == ("Running", "True")


def test_a_failed_liveness_probe_ends_the_container_and_the_policy_runs_it_again() -> None:
    raw = pod(container(livenessProbe={"httpGet": {"port": 1}}), restartPolicy="Always")
    raw["spec"]["terminationGracePeriodSeconds"] = 3
    harness = MachineHarness(raw).begin()
    harness.new_instructions()
    harness.send(life.ProbeReport("main", 0, "liveness", healthy=False, message="refused"), at=10)
    assert harness.new_instructions() == [life.Signal("main", kill=False)]
    assert harness.machine.next_wake() == 13
    harness.exit("main", 143, at=11)
    assert harness.running == {"main": 1}


def test_readiness_follows_the_probe_and_ends_with_the_run() -> None:
    harness = MachineHarness(pod(container(readinessProbe={"httpGet": {"port": 1}}))).begin()
    assert harness.condition("Ready") == "False"
    harness.send(life.ProbeReport("main", 0, "readiness", healthy=True))
    assert (harness.condition("Ready"), harness.condition("ContainersReady")) == ("True", "True")
    harness.send(life.ProbeReport("main", 0, "readiness", healthy=False))
    assert harness.condition("Ready") == "False"


def test_events_of_an_earlier_run_are_ignored() -> None:
    harness = MachineHarness(pod(restartPolicy="Always")).begin().exit("main", 1)
    before = harness.status
    harness.send(life.Exited("main", 0, 9)).send(
        life.ProbeReport("main", 0, "liveness", healthy=False)
    )
    assert harness.status == before


def test_failed_preparation_is_repeated_with_a_reason() -> None:
    machine = PodMachine(parse_pod(pod()), BACK_OFF, moment(0))
    assert life.Prepare() in machine.handle(life.Tick(), moment(0))
    machine.handle(life.PrepareFailed("ContainerCreating", 'configmap "c" not found'), moment(0))
    waiting = machine.status(moment(0))["containerStatuses"][0]["state"]["waiting"]
    assert waiting == {"reason": "ContainerCreating", "message": 'configmap "c" not found'}
    assert machine.next_wake() == 1
    assert life.Prepare() in machine.handle(life.Tick(), moment(1))


@cases(
    ("event", "reason", "phase"),
    {
        "an unknown image waits": (
            life.StartFailed("main", "ErrImagePull", "unknown"),
            "ErrImagePull",
            "Pending",
        ),
        "a program that is not there is a run that failed": (
            life.StartFailed("main", "StartError", "no such program", exit_code=128),
            "StartError",
            "Failed",
        ),
    },
)
def test_a_start_that_fails(event: life.StartFailed, reason: str, phase: str) -> None:
    machine = PodMachine(parse_pod(pod(restartPolicy="Never")), BACK_OFF, moment(0))
    machine.handle(life.Tick(), moment(0))
    machine.handle(life.Prepared(), moment(0))
    machine.handle(event, moment(0))
    status = machine.status(moment(0))
    state = next(iter(status["containerStatuses"][0]["state"].values()))
    assert (state["reason"], status["phase"]) == (reason, phase)
