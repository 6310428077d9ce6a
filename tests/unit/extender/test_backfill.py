"""Which nodes an old gang that does not fit keeps for itself, and who passes all the same."""

import json

from extender.state.cluster import ProfileForecast
from optimus.jobs import Counts, Requirement, Role
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.profiles import JobRef, ProfileStatus, TrainingProfile
from optimus.kube.times import format_second
from optimus.kube.training_jobs import decode_job
from optimus.placement.queue.backfill import ENDLESS_SECONDS, MAX_CLOSING
from optimus.placement.rules import AffinityTerm, PodRules, PodSelector
from tests.cases import cases
from tests.unit.extender.fake_cluster import FakeCluster, reasons


def busy_cluster(nodes: int) -> FakeCluster:
    """Nodes of 4 CPUs; on each a job of one pod runs on one of them."""
    cluster = FakeCluster({f"n{at:03}": 4 for at in range(nodes)})
    for at in range(nodes):
        running = cluster.pod(f"running{at:03}", Role.WORKER, 0, None, 1)
        cluster.bind(running.name, f"n{at:03}")
    return cluster


def set_forecast(cluster: FakeCluster, job: str, seconds: float) -> None:
    """The job's profile says how long it needs from now on."""
    cluster.state.cluster.forecasts[f"uid-{job}"] = ProfileForecast(cluster.now, seconds)


def test_an_old_gang_that_needs_two_empty_nodes_leaves_the_others_to_small_gangs() -> None:
    cluster = busy_cluster(100)
    old = cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    small = [name for at in range(20) for name in cluster.job(f"small{at:02}", 1, 2)]
    cluster.planner.advance()
    planned = cluster.planned_nodes()
    assert set(planned) == set(small)
    assert len(planned.keys() & set(old)) == 0
    cluster.assert_not_overcommitted()


def test_small_gangs_take_all_but_the_two_nodes_of_the_old_gang_s_plan() -> None:
    cluster = busy_cluster(10)
    old = cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    for at in range(10):
        cluster.job(f"small{at:02}", 1, 2)
    cluster.planner.advance()
    planned = cluster.planned_nodes()
    assert len(planned) == 8 * 3
    open_nodes = set(planned.values())
    assert len(open_nodes) == 8
    (reason,) = reasons(cluster, "small09-ps-0")
    assert reason.endswith("fits, but a job before it in the queue needs the capacity")
    # The closed nodes become empty, and the old gang is planned there.
    closed = sorted(set(cluster.nodes) - open_nodes)
    cluster.delete(*(f"running{int(node[1:]):03}-worker-0" for node in closed))
    cluster.planner.advance()
    assert [cluster.planned_nodes()[name] for name in old] == closed


@cases(
    ("waited", "planned"),
    {"at the age limit it does not close nodes yet": (600, 2), "past it it does": (601, 0)},
)
def test_the_age_limit_of_a_gang_that_closes_nodes(waited: int, planned: int) -> None:
    cluster = FakeCluster({"a": 4})
    cluster.other("o", 1, "a")
    cluster.bind(cluster.pod("running", Role.WORKER, 0, None, 1).name, "a")
    cluster.job("old", 1, 2, priority=1)
    cluster.now += waited
    cluster.job("small", 1, 1)
    cluster.planner.advance()
    assert len(cluster.planned_nodes()) == planned


def test_a_gang_that_is_bound_in_part_closes_nodes_at_once() -> None:
    cluster = FakeCluster({"a": 4, "b": 4, "c": 1})
    bound, rest = cluster.job("half", 1, 1, cpu=3)
    cluster.bind(bound, "a")
    running = cluster.pod("running", Role.WORKER, 0, None, 3).name
    cluster.bind(running, "b")
    small = cluster.job("small", 1, 2)
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}
    assert "before it in the queue" in "".join(reasons(cluster, small[0]))
    cluster.delete(running)
    cluster.planner.advance()
    assert cluster.planned_nodes() == {rest: "b"} | dict(zip(small, "abc", strict=True))


@cases(
    ("cpu", "planned"),
    {
        "pods that were made again keep them": (1, []),
        "larger pods wait as a new gang does": (2, ["behind-ps-0", "behind-worker-0"]),
    },
)
def test_the_rest_of_a_gang_in_part_closes_nodes_for_no_more_than_was_planned(
    cpu: int, planned: list[str]
) -> None:
    cluster = FakeCluster({"a": 4, "b": 4})
    first, *rest = cluster.job("half", 1, 2)
    cluster.place(first)
    cluster.delete(*rest)
    cluster.other("o", 3, "a")
    running = cluster.pod("running", Role.WORKER, 0, None, 3).name
    cluster.bind(running, "b")
    for index in range(2):
        cluster.pod("half", Role.WORKER, index, Counts(1, 2), cpu)
    cluster.now += 1
    cluster.node("c", 1)
    cluster.node("b", 5)
    cluster.job("behind", 1, 1)
    cluster.planner.advance()
    assert [name for name in sorted(cluster.planned_nodes()) if "behind" in name] == planned


def test_a_job_that_was_made_larger_closes_no_nodes_for_more_than_it_had() -> None:
    cluster = FakeCluster({"a": 4, "b": 4, "c": 4, "d": 2, "e": 2})
    cluster.spec("large", 0, 1)
    cluster.bind(cluster.pod("large", Role.WORKER, 0, Counts(0, 1), 3).name, "a")
    cluster.spec("large", 0, 3)
    for node in ("b", "c"):
        cluster.bind(cluster.pod(f"running-{node}", Role.WORKER, 0, None, 2).name, node)
    for index in (1, 2):
        cluster.pod("large", Role.WORKER, index, Counts(0, 3), 3)
    behind = cluster.job("behind", 1, 3, cpu=2)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(behind)


def test_a_gang_that_ends_before_the_room_can_be_free_passes() -> None:
    cluster = busy_cluster(2)
    for at, seconds in enumerate((100.0, 300.0)):
        set_forecast(cluster, f"running{at:03}", seconds + 601)
    cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    short, long, unknown = (cluster.job(name, 1, 1) for name in ("short", "long", "unknown"))
    set_forecast(cluster, "short", 299.0)
    set_forecast(cluster, "long", 301.0)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(short)
    for names in (long, unknown):
        assert "before it in the queue" in "".join(reasons(cluster, names[0]))


def profile(cluster: FakeCluster, job: str, **status: object) -> TrainingProfile:
    """The job exists, and this is its profile as the watch shows it."""
    replicas = {"replicas": 1, "template": {"spec": {"containers": [{"name": "tensorflow"}]}}}
    body = {
        "metadata": {"name": job, "namespace": "ns", "uid": f"uid-{job}"},
        "spec": {"tfReplicaSpecs": {"PS": replicas, "Worker": replicas}},
    }
    made = decode_job("TFJob", json.dumps(body).encode(), config=EligibilityConfig())
    cluster.handlers.job(None, made)
    return TrainingProfile(
        uid=f"profile-{job}",
        namespace="ns",
        name=job,
        job=JobRef("TFJob", job, f"uid-{job}"),
        status=ProfileStatus(**status),  # type: ignore[arg-type]  # each test names fields that exist
    )


def test_forecasts_are_read_from_profiles_and_count_from_their_decision() -> None:
    cluster = busy_cluster(2)
    cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    for at, remaining in enumerate((200, 400)):
        decided_at = format_second(cluster.now - 100)
        ends = profile(
            cluster, f"running{at:03}", decided_at=decided_at, remaining_seconds=remaining
        )
        cluster.handlers.profile(None, ends)
    short, long = (cluster.job(name, 1, 1) for name in ("short", "long"))
    decided_at = format_second(cluster.now)
    for name, remaining in (("short", 299), ("long", 301)):
        with_forecast = profile(cluster, name, decided_at=decided_at, remaining_seconds=remaining)
        cluster.handlers.profile(None, with_forecast)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(short), "the last running job ends in 300 s"
    assert "before it in the queue" in "".join(reasons(cluster, long[0]))


@cases(
    "status",
    {
        "nothing was decided yet": {},
        "it is not known when": {"remaining_seconds": 5},
        "no time remains known": {"decided_at": "2026-01-01T00:00:00Z"},
        "no time at all": {"decided_at": "noon", "remaining_seconds": 5},
        "the profile is deleted": None,
    },
)
def test_a_forecast_ends_with_its_profile(status: dict[str, object] | None) -> None:
    cluster = FakeCluster({"a": 1})
    decided_at = "2026-01-01T00:00:00Z"
    before = profile(cluster, "j", decided_at=decided_at, remaining_seconds=5)
    cluster.handlers.profile(None, before)
    (forecast,) = cluster.state.cluster.forecasts.values()
    assert forecast == ProfileForecast(1767225600.0, 5.0)
    after = None if status is None else profile(cluster, "j", **status)
    cluster.handlers.profile(before, after)
    assert cluster.state.cluster.forecasts == {}


def test_the_plan_is_on_the_nodes_that_are_free_first_by_the_forecasts() -> None:
    cluster = busy_cluster(4)
    for at, seconds in ((1, 500.0), (2, 100.0), (3, 200.0)):
        set_forecast(cluster, f"running{at:03}", seconds + 601)
    cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    for at in range(4):
        cluster.job(f"small{at}", 1, 2)
    cluster.planner.advance()
    assert set(cluster.planned_nodes().values()) == {"n000", "n001"}


def test_a_job_without_a_forecast_ends_after_all_others() -> None:
    cluster = busy_cluster(2)
    set_forecast(cluster, "running001", 601.0 + 50)
    cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    set_forecast(cluster, "before", 49.0)
    set_forecast(cluster, "after", 51.0)
    before, _ = cluster.job("before", 1, 1), cluster.job("after", 1, 1)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(before)


def test_only_the_first_old_gangs_close_nodes() -> None:
    cluster = busy_cluster(MAX_CLOSING + 4)
    for at in range(MAX_CLOSING + 4):
        cluster.now += 1
        cluster.job(f"old{at:02}", 0, 1, cpu=4)
    cluster.now += 700
    for at in range(MAX_CLOSING + 4):
        cluster.job(f"small{at:02}", 1, 2)
    cluster.planner.advance()
    assert len(set(cluster.planned_nodes().values())) == 4
    assert len(cluster.planned_nodes()) == 4 * 3


def test_a_gang_of_a_higher_priority_passes_an_old_gang() -> None:
    cluster = busy_cluster(2)
    cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    high = cluster.job("high", 1, 1, priority=1)
    cluster.job("same", 1, 1)
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(high)


def test_a_gang_that_waits_for_its_own_namespace_s_jobs_closes_nodes_for_that_alone() -> None:
    cluster = FakeCluster({f"n{at}": 4 for at in range(4)})
    cluster.bind(cluster.pod("endless", Role.WORKER, 0, None, 1, namespace="tenant").name, "n0")
    set_forecast(cluster, "endless", 700.0)  # whatever its log claims
    cluster.job("whole", 4, 12, namespace="tenant")
    cluster.now += 601
    own = cluster.job("own", 1, 1, namespace="tenant")
    others = cluster.job("other", 1, 1, namespace="honest")
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(others)
    assert reasons(cluster, own[0]) == {
        "job tenant/own (1 PS + 1 worker) fits, but a job before it in the queue needs the capacity"
    }


def test_a_gang_prefers_a_plan_that_does_not_wait_for_its_own_namespace_s_jobs() -> None:
    cluster = FakeCluster({f"n{at}": 4 for at in range(4)})
    for at, namespace in enumerate(["tenant", "tenant", "honest", "honest"]):
        running = cluster.pod(f"running{at}", Role.WORKER, 0, None, 1, namespace=namespace)
        cluster.bind(running.name, f"n{at}")
    cluster.job("old", 1, 1, cpu=4, namespace="tenant")
    cluster.now += 601
    others = [name for at in range(4) for name in cluster.job(f"o{at}", 1, 2, namespace="honest")]
    cluster.planner.advance()
    assert set(cluster.planned_nodes().values()) == {"n0", "n1"}
    # Those jobs end: the plan closes nodes for everybody as long as it waits for others alone.
    cluster.delete(*others)
    cluster.now += 61
    cluster.job("later", 1, 2, namespace="honest")
    cluster.planner.advance()
    assert set(cluster.planned_nodes().values()) <= {"n0", "n1"}


def test_a_gang_closes_nodes_for_others_again_once_its_own_namespace_s_jobs_have_ended() -> None:
    cluster = FakeCluster({f"n{at}": 4 for at in range(2)})
    for at, namespace in enumerate(["tenant", "honest"]):
        running = cluster.pod(f"running{at}", Role.WORKER, 0, None, 1, namespace=namespace)
        cluster.bind(running.name, f"n{at}")
    cluster.job("old", 1, 1, cpu=4, namespace="tenant")
    cluster.now += 601
    cluster.planner.advance()
    cluster.delete("running0-worker-0")
    cluster.now += 61
    cluster.job("small", 1, 2, namespace="honest")
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}


def test_a_gang_that_its_rules_keep_from_every_node_closes_none_for_others() -> None:
    cluster = FakeCluster({})
    for at in range(4):
        cluster.node(f"n{at}", 4, host=f"n{at}")
        cluster.change(cluster.other(f"daemon{at}", 1, f"n{at}"), labels=(("app", "t"),))
    selected = PodSelector((Requirement("app", "In", ("t",)),), ("ns",))
    apart = PodRules(anti_affinity=(AffinityTerm("host", selected),))
    cluster.job("apart", 1, 1, rules=apart, namespace="tenant")
    cluster.now += 601
    others = cluster.job("other", 4, 8, namespace="honest")
    cluster.planner.advance()
    assert set(cluster.planned_nodes()) == set(others)


def test_many_gangs_of_one_namespace_leave_others_their_part_of_those_that_close_nodes() -> None:
    cluster = busy_cluster(2 * MAX_CLOSING)
    for at in range(2 * MAX_CLOSING):
        cluster.job(f"many{at:02}", 0, 1, cpu=4, namespace="greedy")
    cluster.now += 1
    cluster.job("one", 0, 1, cpu=4, namespace="modest")
    cluster.now += 601
    cluster.planner.advance()
    closing = cluster.planner.future_plans
    assert len(closing) == MAX_CLOSING
    assert "uid-one" in closing


def test_an_endless_job_of_another_namespace_does_not_close_nodes_for_all_for_ever() -> None:
    cluster = FakeCluster({"a": 4})
    cluster.bind(cluster.pod("endless", Role.WORKER, 0, None, 1, namespace="one").name, "a")
    cluster.job("large", 0, 1, cpu=4, namespace="two")
    cluster.now += 601
    cluster.job("small", 0, 1, namespace="three")
    cluster.planner.advance()
    assert cluster.planned_nodes() == {}
    for _ in range(int(ENDLESS_SECONDS) // 60):
        cluster.now += 61
        cluster.planner.advance()
    assert set(cluster.planned_nodes()) == {"small-worker-0"}
    own = cluster.job("own", 0, 1, namespace="two")
    cluster.planner.advance()
    assert own[0] not in cluster.planned_nodes()
