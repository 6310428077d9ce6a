"""Which nodes an old gang that does not fit keeps for itself, and who passes all the same."""

import json

from extender.state.cluster import ProfileFacts, ProfileForecast
from optimus.jobs import Counts, Requirement, Role
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.profiles import JobRef, ProfileStatus, TrainingProfile
from optimus.kube.times import format_second
from optimus.kube.training_jobs import decode_job
from optimus.placement.queue.backfill import ENDLESS_SECONDS
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
    facts = ProfileFacts(ProfileForecast(cluster.now, seconds))
    cluster.handlers.set_profile(f"uid-{job}", facts)


def test_an_old_gang_that_needs_two_empty_nodes_leaves_the_others_to_small_gangs() -> None:
    cluster = busy_cluster(100)
    old = cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    small = [name for at in range(20) for name in cluster.job(f"small{at:02}", 1, 2)]
    cluster.plan()
    planned = cluster.planned_nodes()
    assert set(planned) == set(small)
    assert len(planned.keys() & set(old)) == 0
    cluster.assert_not_overcommitted()


@cases(
    ("waited", "later", "planned"),
    {
        "at the age limit it does not close nodes yet": (600, 0, 2),
        "past it it does": (601, 0, 0),
        "not for ever where the running job has no known end": (601, ENDLESS_SECONDS + 1, 2),
    },
)
def test_the_age_limit_of_a_gang_that_closes_nodes(waited: int, later: float, planned: int) -> None:
    cluster = FakeCluster({"a": 4})
    cluster.other("o", 1, "a")
    cluster.bind(cluster.pod("running", Role.WORKER, 0, None, 1).name, "a")
    cluster.job("old", 1, 2, priority=1)
    cluster.now += waited
    cluster.job("small", 1, 1)
    cluster.plan()
    cluster.now += later
    cluster.plan()
    assert len(cluster.planned_nodes()) == planned


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
    cluster.plan()
    assert [name for name in sorted(cluster.planned_nodes()) if "behind" in name] == planned


def test_a_gang_that_ends_before_the_room_can_be_free_passes() -> None:
    cluster = busy_cluster(2)
    for at, seconds in enumerate((100.0, 300.0)):
        set_forecast(cluster, f"running{at:03}", seconds + 601)
    cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    short, long, unknown = (cluster.job(name, 1, 1) for name in ("short", "long", "unknown"))
    set_forecast(cluster, "short", 299.0)
    set_forecast(cluster, "long", 301.0)
    cluster.plan()
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
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(short), "the last running job ends in 300 s"
    assert "before it in the queue" in "".join(reasons(cluster, long[0]))


def test_the_plan_is_on_the_nodes_that_are_free_first_by_the_forecasts() -> None:
    cluster = busy_cluster(4)
    for at, seconds in ((1, 500.0), (2, 100.0), (3, 200.0)):
        set_forecast(cluster, f"running{at:03}", seconds + 601)
    cluster.job("old", 1, 1, cpu=4)
    cluster.now += 601
    for at in range(4):
        cluster.job(f"small{at}", 1, 2)
    cluster.plan()
    assert set(cluster.planned_nodes().values()) == {"n000", "n001"}


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
    cluster.plan()
    assert set(cluster.planned_nodes()) == set(others)
