"""The sentence about one gang, from its report alone."""

from collections.abc import Mapping

import msgspec
import pytest

from extender.gang_report import (
    Expectation,
    GangReport,
    RoleReport,
    amounts,
    cause,
    for_users,
    sentence,
)
from extender.gang_states import GangPhase, WaitReason
from extender.node_places import Places
from optimus.jobs import Role
from optimus.kube.waiting_events import JobAhead


def report(state: GangPhase, **fields: object) -> GangReport:
    return GangReport(
        namespace="ns",
        job="j",
        kind="TFJob",
        uid="uid",
        priority=0,
        state=state,
        **fields,  # type: ignore[arg-type]  # of a test table
    )


def lacking(admit: int, now: int, short_of: Mapping[str, int]) -> RoleReport:
    """One worker lacks a place; five nodes."""
    count = Places(
        nodes=5, admit_it=admit, hold_it_now=now, hold_it_empty=admit, places=now, short_of=short_of
    )
    return RoleReport(
        role=Role.WORKER, expected=1, exist=1, gated=0, bound=0, lacking=1, request={}, places=count
    )


def role(of: Role, expected: int, exist: int, gated: int = 0) -> RoleReport:
    return RoleReport(role=of, expected=expected, exist=exist, gated=gated, bound=0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(
            report(GangPhase.PLANNED, nodes=dict(zip("0123", "abcd", strict=True))),
            "is planned on a, b, c and 1 more nodes",
            id="more nodes than are named",
        ),
        pytest.param(
            report(GangPhase.WAITING, roles=(lacking(0, 0, {}),)),
            "waits: 1 worker lacks a place (no node admits one: see its node selector, affinity"
            " and tolerations)",
            id="no node admits it, and it does not say since when",
        ),
        pytest.param(
            report(GangPhase.WAITING, roles=(lacking(3, 1, {}),), since="2026-01-02T03:04:05Z"),
            "waits: 1 worker lacks a place (1 of 3 nodes hold one); since 03:04 UTC",
            id="short of no resource",
        ),
        pytest.param(
            report(
                GangPhase.PLANNED,
                wait=WaitReason.PREEMPTING,
                victims=("ns/a", "ns/b", "ns/c", "ns/d", "ns/e"),
            ),
            "waits for the end of the pods of ns/a, ns/b, ns/c and 2 more jobs, whose room is"
            " reserved for it",
            id="more victims than are named",
        ),
        pytest.param(
            report(GangPhase.BINDING, nodes={"ps-0": "b", "worker-0": "a", "worker-1": "b"}),
            "is being bound to a, b",
            id="each node is named once",
        ),
        pytest.param(
            report(GangPhase.SUSPENDED, preempted_for="ns/k"),
            "is paused for ns/k, and is resumed by itself",
            id="preempted",
        ),
        pytest.param(
            report(GangPhase.SUSPENDED), "is suspended, by its field suspend", id="suspended"
        ),
        pytest.param(report(GangPhase.RUNNING), "all its pods have a node", id="running"),
        pytest.param(
            report(
                GangPhase.INCOMPLETE,
                roles=(role(Role.PS, 1, 1), role(Role.WORKER, 6, 2)),
                missing=("worker-2", "worker-3", "worker-4", "worker-5"),
                since="2026-01-02T03:04:05Z",
            ),
            "waits for 4 of 7 pods that do not exist: worker-2, worker-3, worker-4 and 1 more pods;"
            " since 03:04 UTC",
            id="pods are missing",
        ),
        pytest.param(
            report(
                GangPhase.INCOMPLETE,
                roles=(role(Role.WORKER, 10_000, 1),),
                missing=("worker-1", "worker-2", "worker-3", "worker-4"),
            ),
            "waits for 9999 of 10000 pods that do not exist: worker-1, worker-2, worker-3 and 9996"
            " more pods",
            id="more pods are missing than are named",
        ),
        pytest.param(
            report(GangPhase.INCOMPLETE, reason="waiting for scheduling gate a.io/quota"),
            "waiting for scheduling gate a.io/quota",
            id="all pods exist",
        ),
        pytest.param(
            report(GangPhase.WAITING, reason="r", since="2026-01-02T03:04:05Z"),
            "waits: r; since 03:04 UTC",
            id="not planned yet",
        ),
        pytest.param(
            report(GangPhase.WAITING, reason="another reason"), "waits: another reason", id="else"
        ),
        pytest.param(
            report(
                GangPhase.WAITING,
                reason="r",
                jobs_ahead=5,
                ahead=tuple(JobAhead(f"ns/{each}", 0) for each in "abcd"),
            ),
            "waits: r; behind ns/a, ns/b, ns/c and 2 more jobs",
            id="behind others",
        ),
        pytest.param(
            report(
                GangPhase.WAITING,
                reason="r",
                jobs_ahead=3,
                ahead=(JobAhead("ns/a", 2), JobAhead("ns/b", 1), JobAhead("ns/c", 0)),
            ),
            "waits: r; behind ns/a (2 nodes), ns/b (1 nodes), for which nodes are kept free",
            id="behind those that keep nodes",
        ),
        pytest.param(
            report(
                GangPhase.WAITING,
                reason="r",
                expected=Expectation(at="2026-01-02T03:05:00Z", awaits="ns/a"),
            ),
            "waits: r; until ns/a ends",
            id="room is expected",
        ),
        pytest.param(
            report(GangPhase.WAITING, reason="r", expected=Expectation(at=None, awaits="ns/a")),
            "waits: r; until ns/a ends",
            id="room is not expected at a known time",
        ),
        pytest.param(
            report(GangPhase.WAITING, reason="r", expected=Expectation(at="2026-01-02T03:05:00Z")),
            "waits: r",
            id="room awaits no job's end",
        ),
        pytest.param(
            report(
                GangPhase.WAITING,
                reason="r",
                fits_without_other_jobs=False,
                jobs_ahead=1,
                ahead=(JobAhead("ns/a", 2),),
                expected=Expectation(at=None, awaits="ns/a"),
            ),
            "waits: r; it does not fit even once all training jobs have ended",
            id="never fits",
        ),
        pytest.param(
            report(GangPhase.WAITING, wait=WaitReason.NO_ROOM, rules=("host ports", "volumes")),
            "waits: there is capacity for its pods, but not on nodes that its rules allow (host"
            " ports, volumes)",
            id="rules refuse it",
        ),
        pytest.param(
            report(GangPhase.WAITING, reason="r", fits_without_other_jobs=True),
            "waits: r",
            id="fits some time",
        ),
    ],
)
def test_the_sentence_about_a_gang(given: GangReport, expected: str) -> None:
    assert sentence(given) == expected


def lack(of: Role, count: int, short_of: Mapping[str, int], empty: int = 2, now: int = 1) -> str:
    """What lacks of one role, of three nodes that admit it."""
    nodes = Places(
        nodes=5, admit_it=3, hold_it_now=now, hold_it_empty=empty, places=0, short_of=short_of
    )
    shown = RoleReport(
        role=of,
        expected=count,
        exist=count,
        gated=0,
        bound=0,
        lacking=count,
        request={"cpu": 1500, "memory": 2**30, "pods": 1},
        places=nodes,
    )
    return sentence(report(GangPhase.WAITING, roles=(shown,))).removeprefix("waits: ")


def test_what_lacks_is_said_with_its_figures() -> None:
    assert lack(Role.PS, 2, {"cpu": 2}) == (
        "2 PS of 1.5 cpu lack a place (1 of 3 nodes hold one; cpu is short)"
    )
    assert lack(Role.PS, 1, {"memory": 2}) == (
        "1 PS of 1Gi memory lacks a place (1 of 3 nodes hold one; memory is short)"
    )
    assert lack(Role.WORKER, 2, {"cpu": 2, "memory": 1}, now=0) == (
        "2 workers of 1.5 cpu lack a place (0 of 3 nodes hold one; cpu is short)"
    )
    assert lack(Role.WORKER, 1, {"cpu": 3}, empty=0) == (
        "1 worker of 1.5 cpu lacks a place (none of 3 nodes holds one even when empty: too much"
        " cpu is asked for)"
    )
    assert lack(Role.WORKER, 1, {}, empty=0) == (
        "1 worker lacks a place (none of 3 nodes holds one even when empty)"
    )
    # Of pods a node has a number: no amount is asked for.
    assert lack(Role.WORKER, 1, {"pods": 1}) == (
        "1 worker lacks a place (1 of 3 nodes hold one; pods is short)"
    )


@pytest.mark.parametrize(
    ("request_", "text"),
    [
        ({"memory": 2**30, "cpu": 500, "pods": 1}, "0.5 cpu, 1Gi memory"),
        ({"memory": 2**30 - 2**20}, "1023Mi memory"),
        ({"memory": 2**20}, "1Mi memory"),
        ({"memory": 2**20 - 1}, "1048575 memory"),
        ({"memory": 5 * 2**29}, "2.5Gi memory"),
        ({"nvidia.com/gpu": 2}, "2 nvidia.com/gpu"),
        ({"pods": 1}, ""),
        pytest.param(
            {"ephemeral-storage": 2**31, "hugepages-2Mi": 100 * 2**20, "nvidia.com/gpu": 2},
            "2Gi ephemeral-storage, 100Mi hugepages-2Mi, 2 nvidia.com/gpu",
            id="every amount of bytes",
        ),
    ],
)
def test_amounts_at_the_bounds_of_their_units(request_: dict[str, int], text: str) -> None:
    assert amounts(request_) == text


def test_the_cause_is_another_with_another_state_reason_gate_or_resource() -> None:
    short = lacking(3, 1, {"cpu": 1})
    causes = {
        cause(each)
        for each in (
            report(GangPhase.WAITING),
            report(GangPhase.INCOMPLETE),
            report(GangPhase.WAITING, reason="r"),
            report(GangPhase.INCOMPLETE, gates=("a.io/quota",)),
            report(GangPhase.WAITING, roles=(lacking(3, 1, {}),)),
            report(GangPhase.WAITING, roles=(short,)),
        )
    }
    assert len(causes) == 6
    same = [
        report(GangPhase.WAITING, wait=wait, roles=(short, role(Role.PS, 1, 1)))
        for wait in (WaitReason.NO_ROOM, WaitReason.NOT_PLANNED, WaitReason.NOT_OFFERED)
    ]
    assert {cause(each) for each in same} == {cause(report(GangPhase.WAITING, roles=(short,)))}


def test_a_resource_that_no_node_offers_is_named_with_the_setting_that_leaves_it_out() -> None:
    asked = {"nvidia.com/gpumem": 3000}
    role = lacking(3, 0, asked)
    assert role.places is not None
    places = msgspec.structs.replace(role.places, not_offered=("nvidia.com/gpumem",))
    role = msgspec.structs.replace(role, places=places, request=asked)
    assert sentence(report(GangPhase.WAITING, roles=(role,))) == (
        "waits: 1 worker of 3000 nvidia.com/gpumem lacks a place (no node offers nvidia.com/gpumem:"
        " a resource that another extender accounts for is to be named in"
        " OPTIMUS_IGNORED_RESOURCES)"
    )


def test_an_event_names_no_job_of_another_namespace() -> None:
    whole = report(
        GangPhase.WAITING,
        ahead=(JobAhead("ns/mine", 0), JobAhead("other/secret", 2), JobAhead("third/secret", 1)),
        jobs_ahead=5,
        expected=Expectation(at="2026-01-01T00:05:00Z", awaits="other/secret"),
        victims=("other/secret",),
        preempted_for="other/secret",
    )
    told = for_users(whole)
    assert "secret" in sentence(whole)
    assert "secret" not in str(told)
    assert "behind a job of another namespace (3 nodes)" in told.sentence
    assert "until a job of another namespace ends" in told.sentence
    own = msgspec.structs.replace(whole, ahead=(JobAhead("ns/mine", 2),), expected=None)
    assert "behind ns/mine (2 nodes)" in for_users(own).sentence
