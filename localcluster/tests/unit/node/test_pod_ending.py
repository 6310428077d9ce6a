"""The pod's state machine at the end: completion, deletion, rejection, an agent that comes back;
and properties."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from localcluster.node import lifecycle as life
from localcluster.node.admission import Rejection
from tests.unit.node.machine_harness import SIDECAR, MachineHarness
from tests.unit.node.pods import container, pod


def test_sidecars_end_in_reverse_order_after_the_main_container_and_do_not_count() -> None:
    sides = (container("first", **SIDECAR), container("second", **SIDECAR))
    harness = MachineHarness(pod(init=sides, restartPolicy="Never")).begin()
    harness.new_instructions()
    harness.exit("main", 0)
    assert harness.new_instructions() == [life.EndProbes("main"), life.Signal("second", kill=False)]
    assert harness.phase == "Running"
    harness.exit("second", 143)
    assert harness.new_instructions() == [
        life.EndProbes("second"),
        life.Signal("first", kill=False),
    ]
    harness.exit("first", 137)
    assert harness.phase == "Succeeded"


def test_a_deleted_pod_gets_its_grace_period_a_final_phase_and_is_removed() -> None:
    harness = MachineHarness(pod()).begin()
    harness.new_instructions()
    harness.send(life.DeletionRequested(5), at=100)
    assert harness.new_instructions() == [life.Signal("main", kill=False)]
    assert harness.machine.next_wake() == 105
    harness.send(life.Tick(), at=104.9)
    assert harness.new_instructions() == []
    harness.send(life.Tick(), at=105)
    assert harness.new_instructions() == [life.Signal("main", kill=True)]
    harness.exit("main", 137)
    assert harness.new_instructions() == [life.EndProbes("main"), life.Discard()]
    assert harness.phase == "Failed"


def test_sidecars_of_a_deleted_pod_wait_for_its_main_containers() -> None:
    harness = MachineHarness(pod(init=(container("side", **SIDECAR),))).begin()
    harness.new_instructions()
    harness.send(life.DeletionRequested(30), at=10)
    assert harness.new_instructions() == [life.Signal("main", kill=False)]
    harness.exit("main", 0, at=20)
    assert harness.new_instructions() == [life.EndProbes("main"), life.Signal("side", kill=False)]
    assert harness.machine.next_wake() == 40


def test_a_pod_whose_object_is_gone_is_killed_and_dropped() -> None:
    harness = MachineHarness(pod()).begin()
    harness.new_instructions()
    harness.send(life.Vanished())
    assert harness.new_instructions() == [life.Signal("main", kill=True)]
    assert harness.machine.next_wake() is None
    harness.exit("main", 137)
    assert harness.new_instructions() == [life.EndProbes("main"), life.Forget()]


def test_a_rejected_pod_fails_without_container_states_and_goes_when_deleted() -> None:
    harness = MachineHarness(pod())
    harness.machine.reject(Rejection("OutOfcpu", "too much"))
    assert harness.begin().new_instructions() == []
    assert harness.status == {"phase": "Failed", "reason": "OutOfcpu", "message": "too much"}
    assert harness.send(life.DeletionRequested(30)).new_instructions() == [life.Discard()]


def test_a_pod_that_ran_has_ended_with_the_agent_that_ran_it() -> None:
    first = MachineHarness(pod(restartPolicy="Always")).begin()
    second = MachineHarness(pod(restartPolicy="Always"), first.status).begin()
    assert (second.new_instructions(), second.phase) == ([], "Failed")
    assert second.status["reason"] == "NodeAgentEnded"


@st.composite
def histories(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[str, int, float]]]:
    """Draw a pod and a list of (what happens, a number, seconds later)."""
    init = tuple(container(f"i{index}", **SIDECAR) for index in range(draw(st.integers(0, 2))))
    main = [container(f"m{index}") for index in range(draw(st.integers(1, 2)))]
    policy = draw(st.sampled_from(["Always", "OnFailure", "Never"]))
    what = st.sampled_from(["exit", "exit", "exit", "tick", "wake", "delete", "unhealthy"])
    steps = draw(st.lists(st.tuples(what, st.integers(0, 3), st.floats(0, 50)), max_size=25))
    return pod(*main, init=init, restartPolicy=policy, terminationGracePeriodSeconds=5), steps


@settings(max_examples=150)
@given(histories())
def test_phases_are_final_containers_start_once_and_deleted_pods_are_removed(
    history: tuple[dict[str, Any], list[tuple[str, int, float]]],
) -> None:
    raw, steps = history
    harness = MachineHarness(raw).begin()
    final: str | None = None
    deleted = False
    for what, number, later in steps:
        now = harness.now + later
        names = sorted(harness.running)
        if what == "exit" and names:
            harness.exit(names[number % len(names)], number, at=now)
        elif what == "wake":
            harness.send(life.Tick(), at=max(now, harness.machine.next_wake() or 0))
        elif what == "delete":
            deleted = True
            harness.send(life.DeletionRequested(number), at=now)
        elif what == "unhealthy" and names:
            name = names[number % len(names)]
            harness.send(
                life.ProbeReport(name, harness.running[name], "liveness", healthy=False), at=now
            )
        else:
            harness.send(life.Tick(), at=now)
        assert final is None or harness.phase == final
        final = harness.phase if harness.machine.finished else None
        starts = [
            (each.container, each.attempt)
            for each in harness.instructions
            if isinstance(each, life.Start)
        ]
        assert len(starts) == len(set(starts))
        assert not (harness.machine.finished and harness.running)
    while deleted and harness.running:
        harness.exit(min(harness.running), 143)
    if deleted:
        assert harness.instructions.count(life.Discard()) == 1
        assert harness.phase in {"Succeeded", "Failed"}
