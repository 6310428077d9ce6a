"""What the benchmark of killed leaders would find, and what it makes."""

import math
from random import Random

import msgspec
import pytest

from benchmarks.scheduler_kills import Bindings, figures, gang, job_of, manifest_probe
from optimus.jobs import Role
from optimus.kube.pods import Pod, decode_pod
from optimus.resources import Resources


def stored(raw: bytes) -> Pod:
    """A pod as the API server stores it."""
    body = msgspec.json.decode(raw)
    body["metadata"] |= {"uid": body["metadata"]["name"], "resourceVersion": "1"}
    return decode_pod(msgspec.json.encode(body))


def pod(name: str, cpu: int, node: str | None = None) -> Pod:
    (raw, *_) = gang(1, Random(1))
    made = stored(raw)
    return msgspec.structs.replace(made, name=name, node=node, resources=Resources(cpu=cpu, pods=1))


@pytest.fixture
def ledger() -> Bindings:
    """One node of 4 CPUs; a gang of two pods is expected."""
    made = Bindings({"a": 4000})
    made.expect("job-1", 2)
    return made


FIRST, SECOND = "job-1-ps-0", "job-1-worker-0"


def bind(ledger: Bindings, name: str, cpu: int) -> None:
    ledger.see(pod(name, cpu), pod(name, cpu, "a"))


def test_a_node_that_holds_more_than_it_has_is_a_fault(ledger: Bindings) -> None:
    bind(ledger, FIRST, 2000)
    bind(ledger, SECOND, 2000)
    assert ledger.faults == []
    ledger.expect("job-2", 1)
    bind(ledger, "job-2-worker-0", 1)
    assert ledger.faults == ["a holds 4001m of 4000m CPU with job-2-worker-0"]


def test_a_pod_that_is_deleted_takes_nothing(ledger: Bindings) -> None:
    bind(ledger, FIRST, 4000)
    ledger.see(pod(FIRST, 4000, "a"), None)
    bind(ledger, SECOND, 4000)
    assert ledger.faults == []
    assert ledger.bound_share() == 1.0


def test_a_gang_is_whole_with_its_last_pod(ledger: Bindings) -> None:
    assert (ledger.waiting_pods(), ledger.count_in_part()) == (2, 0)
    bind(ledger, FIRST, 1)
    assert (ledger.waiting_pods(), ledger.count_in_part()) == (1, 1)
    assert (ledger.whole(), ledger.waiting()) == ([], {"job-1": "1 of 2"})
    assert ledger.longest_in_part() > 0.0
    bind(ledger, SECOND, 1)
    assert (ledger.whole(), ledger.waiting()) == (["job-1"], {})
    assert ledger.count() == 2


def test_a_change_that_is_no_binding_counts_as_none(ledger: Bindings) -> None:
    bind(ledger, FIRST, 1)
    ledger.see(pod(FIRST, 1, "a"), pod(FIRST, 1, "a"))
    ledger.see(None, pod(SECOND, 1))
    assert ledger.count() == 1


def test_gangs_are_the_same_for_a_seed_and_know_their_size() -> None:
    generator = Random(7)
    made = [gang(number, generator) for number in range(50)]
    again = Random(7)
    assert made == [gang(number, again) for number in range(50)]
    for bodies in made:
        pods = [stored(raw) for raw in bodies]
        assert len({job_of(each.name) for each in pods}) == 1
        if pods[0].owner is not None and len(pods) > 1:
            assert pods[0].gang is not None
            assert sum(pods[0].gang.values()) == len(pods)
        assert all(1000 <= each.resources["cpu"] <= 4000 for each in pods)
    without_job = [bodies for bodies in made if stored(bodies[0]).owner is None]
    assert without_job, "single pods of no job are among them"
    assert {len(bodies) for bodies in without_job} == {1}
    replicas = [stored(raw).replica for bodies in made for raw in bodies]
    assert {each.role for each in replicas if each is not None} == {Role.PS, Role.WORKER}


@pytest.mark.parametrize(
    ("seconds", "found"),
    [
        pytest.param([], {}, id="none"),
        pytest.param([3.0], {"median": 3.0, "p95": 3.0, "max": 3.0}, id="one"),
        pytest.param(
            [float(each) for each in range(1, 101)],
            {"median": 50.5, "p95": 95.0, "max": 100.0},
            id="a hundred",
        ),
    ],
)
def test_figures(seconds: list[float], found: dict[str, float]) -> None:
    assert figures(seconds) == found


def test_the_probe_is_the_manifest_s() -> None:
    probe = manifest_probe()
    assert 0 < probe["periodSeconds"] * probe["failureThreshold"] < math.inf
    assert probe["httpGet"]["path"] == "/healthz"
