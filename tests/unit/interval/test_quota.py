"""An interval keeps within what quotas leave to each namespace."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from optimus.interval import Action, Decision, IntervalConfig, IntervalInput, plan_interval
from optimus.interval.capacity_plan import CapacityPlan, Claim, QuotaLedger, headroom, reserve
from optimus.jobs import CountBounds, Counts, Job, JobKey
from optimus.models.forecast import Forecast
from optimus.placement.theorem1 import Theorem1
from optimus.quotas import Quota, QuotaCharge
from optimus.resources import Resources
from optimus.snapshot import ClusterSnapshot
from tests.cases import cases
from tests.unit.interval.cases import AT
from tests.unit.interval.cluster import bind, job, nodes, steps, strategies

ONE = Resources({"requests.cpu": 1000})


def quota(
    room: int,
    *jobs: Job,
    namespace: str = "team",
    held: Sequence[Job] = (),
    leaving: Sequence[Job] = (),
) -> Quota:
    """A quota of so many CPUs for these jobs, with one CPU for each task."""
    charges = {
        each.uid: QuotaCharge(
            ONE,
            ONE,
            held=ONE * (sum(each.counts) if each in held else 0),
            leaving=ONE * (sum(each.counts) if each in leaving else 0),
        )
        for each in jobs
    }
    left = Resources({"requests.cpu": room * 1000})
    return Quota(namespace, "quota compute", ("requests.cpu",), left, charges)


def decide(
    running: Sequence[Job],
    waiting: Sequence[Job],
    known: dict[str, Forecast],
    quotas: Sequence[Quota],
    node: int = 40,
) -> dict[str, Decision]:
    pods = [pod for each in running for pod in bind(each, ["node-00"] * sum(each.counts))]
    snapshot = ClusterSnapshot.of(AT, [*running, *waiting], nodes(1, node), pods)
    snapshot = replace(snapshot, quotas=tuple(quotas))
    plan = plan_interval("i1", IntervalInput(snapshot), strategies(known), IntervalConfig())
    return {each.key.name: each for each in plan.decisions}


def test_a_job_grows_to_what_the_quota_leaves_and_says_so() -> None:
    a = job("a")
    free = decide([a], [], {"a": steps(1000)}, [])["a"]
    held = decide([a], [], {"a": steps(1000)}, [quota(6, a, held=[a])])["a"]
    assert sum(free.counts) > 6
    assert held.action is Action.GROW
    assert sum(held.counts) == 6
    assert "quota compute of namespace team leaves 0 of requests.cpu, and " in held.reason


def test_jobs_of_one_namespace_share_its_room_and_others_do_not_feel_it() -> None:
    a, b = job("a"), job("b")
    c = job("c", key=JobKey("other", "c"))
    known = {"a": steps(1e9), "b": steps(1000), "c": steps(1000)}  # whatever a job claims
    found = decide([a, b, c], [], known, [quota(9, a, b, held=[a, b])])
    assert sum(found["a"].counts) + sum(found["b"].counts) == 9
    assert sum(found["c"].counts) > 9


def test_a_job_beyond_a_lowered_quota_keeps_its_counts() -> None:
    a = job("a", (2, 6))
    found = decide([a], [], {"a": steps(1000)}, [quota(4, a, held=[a])])["a"]
    assert (found.action, found.counts) == (Action.KEEP, Counts(2, 6))


@pytest.mark.parametrize("has_forecast", [True, False])
def test_a_waiting_job_begins_only_within_the_room(has_forecast: bool) -> None:
    a, new = job("a", (1, 3)), job("new", (2, 2))
    known = {"a": steps(10)} | ({"new": steps(1000)} if has_forecast else {})
    found = decide([a], [new], known, [quota(5, a, new, held=[a])])["new"]
    assert found.action in {Action.WAIT, Action.SHRINK}
    if found.action is Action.WAIT:
        assert "of requests.cpu" in found.reason


def test_for_a_quota_only_a_job_of_the_same_namespace_gives_room() -> None:
    """The donor elsewhere loses less, and is of no use here."""
    at_most = CountBounds(max_ps=2, max_workers=8)
    cheap = job("cheap", (2, 8), key=JobKey("other", "cheap"), bounds=at_most)
    near = job("near", (2, 8), bounds=at_most)
    new = job("new", (1, 1))
    known = {"cheap": steps(20), "near": steps(40)}
    found = decide([cheap, near], [new], known, [quota(10, near, new, held=[near])], node=60)
    assert found["near"].action is Action.SHRINK
    assert "releases capacity to team/new" in found["near"].reason
    assert (found["new"].action, found["new"].counts) == (Action.WAIT, Counts(1, 1))
    assert "there is free capacity" in found["new"].reason
    assert found["cheap"].action is Action.KEEP


def test_a_rescale_begins_once_the_pods_of_another_have_left_the_quota() -> None:
    a, gone = job("a"), job("gone", (1, 3))
    snapshot = ClusterSnapshot.of(AT, [a, gone], nodes(1, 40), bind(a, ["node-00"] * 2))
    waits = replace(snapshot, quotas=(quota(6, a, gone, held=[a], leaving=[gone]),))
    assert reserve(headroom(waits, Theorem1(), []), a, Counts(2, 3)) is None
    free = replace(snapshot, quotas=(quota(6, a, gone, held=[a]),))
    assert reserve(headroom(free, Theorem1(), []), a, Counts(2, 3)) is not None


def test_the_target_of_a_stopped_job_is_kept_in_the_quota() -> None:
    a, stopped = job("a"), job("stopped", (1, 3))
    snapshot = ClusterSnapshot.of(AT, [a, stopped], nodes(1, 40), bind(a, ["node-00"] * 2))
    snapshot = replace(snapshot, quotas=(quota(6, a, stopped, held=[a]),))
    claim = Claim(stopped, stopped.counts, is_stopped=True)
    assert reserve(headroom(snapshot, Theorem1(), [claim]), a, Counts(1, 2)) is None
    assert reserve(headroom(snapshot, Theorem1(), []), a, Counts(1, 2)) is not None


def test_trying_and_undoing_leaves_the_ledger_as_it_was() -> None:
    a = job("a")
    snapshot = ClusterSnapshot.of(AT, [a], nodes(1, 40), bind(a, ["node-00"] * 2))
    plan = CapacityPlan.of(replace(snapshot, quotas=(quota(6, a, held=[a]),)), Theorem1())
    before = plan.quotas.remaining()
    assert plan.fits(a, Counts(2, 4))
    assert not plan.fits(a, Counts(2, 5))
    assert plan.quotas.remaining() == before
    refusal = plan.move(a, Counts(2, 5))
    expected = "quota compute of namespace team leaves 6 of requests.cpu, and 2 PS + 5 workers"
    assert refusal == f"{expected} would take 7"
    assert plan.quotas.remaining() == before
    assert plan.move(a, Counts(2, 4)) is None
    assert plan.quotas.remaining()[0].room["requests.cpu"] == 0
    plan.release(a.uid)
    assert plan.quotas.remaining()[0].room["requests.cpu"] == 6000


@cases(
    ("room", "refusal"),
    {
        "the quota has room for it": (4, None),
        "it has not": (
            3,
            (
                "quota compute of namespace team leaves 3 of requests.cpu, and 1 PS + 3 workers "
                "would take 4"
            ),
        ),
    },
)
def test_lost_replicas_are_put_back_within_the_quota(room: int, refusal: str | None) -> None:
    a = job("a", (1, 3))
    half = quota(room, a)
    half = replace(half, charges={a.uid: replace(half.charges[a.uid], held=ONE * 2)})
    pods = bind(a, ["node-00"] * 4)[:2]
    snapshot = replace(ClusterSnapshot.of(AT, [a], nodes(1, 40), pods), quotas=(half,))

    def plan() -> CapacityPlan:
        return CapacityPlan.of(snapshot, Theorem1())

    assert plan().complete(a) == refusal
    assert plan().complete(a, within_quotas=False) is None


@pytest.mark.parametrize(("options", "left"), [({}, 6), ({"leaving_counts": True}, 2)])
def test_pods_that_are_being_deleted_are_charged_only_where_that_is_asked_for(
    options: dict[str, bool], left: int
) -> None:
    gone = job("gone", (1, 3))
    ledger = QuotaLedger.with_pods([quota(6, gone, leaving=[gone])], **options)
    assert ledger.remaining()[0].room["requests.cpu"] == left * 1000


def test_waiting_jobs_together_keep_to_the_quota() -> None:
    jobs = [job(f"j{number}", (2, 2)) for number in range(4)]
    known = {each.key.name: steps(1000) for each in jobs}
    found = decide([], jobs, known, [quota(11, *jobs)])
    started = [
        each for each in found.values() if "free capacity" in each.reason and each.action != "wait"
    ]
    kept = [each for each in found.values() if each.reason.startswith("its 2 PS")]
    taken = sum(sum(each.counts) for each in {each.uid: each for each in started + kept}.values())
    assert 2 <= taken <= 11
