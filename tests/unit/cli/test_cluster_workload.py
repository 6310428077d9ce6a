"""``optimus simulate --from-cluster``: jobs and nodes as a running cluster has them."""

from typing import Any

import pytest

from optimus.cli.cluster_workload import FoundWorkload, read_workload
from optimus.cli.command import BadInput
from optimus.cli.main import main
from optimus.cli.node_groups import parse_nodes
from optimus.interval import IntervalConfig
from optimus.interval.decision_settings import DecisionSettings
from optimus.jobs import Counts, RescaleRule, TargetEpochs
from optimus.kube.errors import KubeError
from optimus.kube.stored_settings import ClusterSettings
from optimus.resources import CPU
from optimus.simulator.engine import simulate
from optimus.simulator.presets import preset
from optimus.simulator.stops import Stops
from optimus.simulator.streams import Purpose, stream
from tests.unit.cli.fake_api import NOW, FakeApi, pod, profile, stored_state
from tests.unit.kube.job_json import job_json

BOUNDS = {"max_ps": "8", "max_workers": "8"}


def node(name: str, cpu: str, **spec: Any) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": allocatable}}


def job(name: str, created: str = "2026-01-01T00:00:00Z", **annotations: str) -> dict[str, Any]:
    raw = job_json(**{"target_loss": "0.2", **BOUNDS, **annotations})
    raw["metadata"] |= {"name": name, "uid": name, "creationTimestamp": created}
    return raw


def api(**others: Any) -> FakeApi:
    """Two jobs that train, one of them created a minute later, on two nodes."""
    usual: dict[str, Any] = {
        "jobs": [job("one"), job("two", "2026-01-01T00:01:00Z", priority="5")],
        "profiles": [
            profile("one", "one", state=stored_state(prices=(40.0, 20.0, 30.0))),
            profile("two", "two", state=stored_state(kind=2, user_counts=Counts(1, 2))),
        ],
        "nodes": [node("a", "32"), node("b", "32")],
    }
    return FakeApi(**{**usual, **others})


def read(source: FakeApi, **how: Any) -> FoundWorkload:
    return read_workload(source, "ns", **how)


class TestJobs:
    def test_they_arrive_as_they_were_created_at_the_counts_of_their_users(self) -> None:
        one, two = read(api()).maker.jobs
        assert (one.job.created_at, two.job.created_at) == (0.0, 60.0)
        assert (one.job.counts, two.job.counts) == (Counts(2, 4), Counts(1, 2))

    def test_a_restart_takes_what_it_took_or_what_the_autoscaler_assumes(self) -> None:
        settings = ClusterSettings(DecisionSettings(interval=IntervalConfig(rescale_seconds=2.0)))
        states = [stored_state(prices=(40.0, 20.0, 30.0, 90.0)), stored_state(settings=settings)]
        profiles = [
            profile(name, name, state=state)
            for name, state in zip(("one", "two"), states, strict=True)
        ]
        profiles[1]["status"]["decidedAt"] = "2026-01-01T00:04:30Z"
        one, two = read(api(profiles=profiles)).maker.jobs
        assert (one.rescale_seconds, two.rescale_seconds) == (30.0, 2.0)

    def test_what_another_extender_accounts_for_is_left_out(self) -> None:
        asks = job("one")
        for role in asks["spec"]["tfReplicaSpecs"].values():
            requests = role["template"]["spec"]["containers"][0]["resources"]["requests"]
            requests["nvidia.com/gpumem"] = "1000"
        settings = ClusterSettings(ignored_resources=frozenset({"nvidia.com/gpumem"}))
        stored = profile("one", "one", state=stored_state(settings=settings))
        stored["status"]["decidedAt"] = "2026-01-01T00:04:30Z"
        found = read(api(jobs=[asks], profiles=[stored]))
        assert len(found.maker.jobs) == 1

    def test_their_work_is_what_they_have_done_and_what_is_left(self) -> None:
        one, _ = read(api()).maker.jobs
        assert isinstance(one.job.goal, TargetEpochs)
        assert one.job.goal.epochs == one.most_epochs > 14
        assert one.steps_per_epoch == 100.0

    def test_their_speed_is_the_one_that_is_predicted_by_what_was_measured(self) -> None:
        one, _ = read(api()).maker.jobs
        slow, fast = (one.speed.steps_per_second((each,)) for each in (Counts(1, 1), Counts(3, 6)))
        assert 0 < slow < fast

    def test_a_restart_takes_what_theirs_took_and_else_what_is_assumed(self) -> None:
        one, two = read(api()).maker.jobs
        assert (one.rescale_seconds, two.rescale_seconds) == (30.0, 60.0)

    def test_one_that_has_ended_has_the_work_that_it_has_done(self) -> None:
        raw = job("one")
        raw["status"] = {"conditions": [{"type": "Succeeded", "status": "True"}]}
        (found,) = read(api(jobs=[raw])).maker.jobs
        assert found.job.goal == TargetEpochs(14)

    def test_a_paused_or_suspended_one_is_as_any_other(self) -> None:
        raw = job("one", pause="true", manage="recommend")
        raw["spec"]["runPolicy"] = {"suspend": True}
        (found,) = read(api(jobs=[raw])).maker.jobs
        assert found.job.managed
        assert (found.job.paused, found.job.suspended) == (False, False)

    def test_one_that_has_shown_nothing_is_left_out_and_said(self) -> None:
        found = read(api(jobs=[job("one"), job("new")]))
        assert [each.job.uid for each in found.maker.jobs] == ["one"]
        assert found.left_out == ("job ns/new: it has no TrainingProfile that shows its training",)

    def test_without_any_there_is_nothing_to_simulate(self) -> None:
        with pytest.raises(BadInput, match="no job has shown enough"):
            read(api(profiles=[]))


class TestNodes:
    def test_they_have_what_other_pods_leave(self) -> None:
        other = pod(0, "a", uid="other")
        del other["metadata"]["ownerReferences"]
        own = pod(1, "b", uid="one")
        role = {"replica-type": "worker", "replica-index": "1"}
        own["metadata"]["labels"] = {f"training.kubeflow.org/{k}": v for k, v in role.items()}
        source = api(pods=[other, own])
        found = {each.name: each.allocatable[CPU] for each in read(source).maker.nodes}
        assert found == {"a": 29_500, "b": 32_000}

    def test_cordoned_ones_are_left_out(self) -> None:
        source = api(nodes=[node("a", "32"), node("b", "32", unschedulable=True)])
        assert [each.name for each in read(source).maker.nodes] == ["a"]

    def test_a_job_that_does_not_fit_on_them_is_left_out(self) -> None:
        source = api(nodes=[node("a", "1")])
        with pytest.raises(BadInput, match="does not fit on the empty nodes"):
            read(source)

    def test_who_may_not_read_them_says_what_they_are(self) -> None:
        source = api(forbidden=["nodes"])
        with pytest.raises(BadInput, match="--nodes says what nodes there are"):
            read(source)
        given = parse_nodes(["3:cpu=16,memory=64"])
        assert len(read(source, nodes=given).maker.nodes) == 3

    def test_who_may_not_read_jobs_is_told_so(self) -> None:
        with pytest.raises(KubeError, match="cannot list tfjobs"):
            read(api(forbidden=["tfjobs"]))


@pytest.mark.parametrize("policy", ["optimus", "drf", "fifo"])
def test_every_policy_finishes_them(policy: str) -> None:
    workload = read(api()).maker(2, stream(1, Purpose.WORKLOAD))
    found = simulate(Stops().of(workload), preset(policy), 1)
    assert {each.uid for each in found.jobs} == {"one", "two"}
    assert all(each.job.rescale is RescaleRule.ANY for each in Stops().of(workload).jobs)
    assert max(each.finished_at for each in found.jobs) < NOW


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--trace", "jobs.csv"], "nothing else may name jobs"),
        (["--workload", "bursts"], "nothing else may name jobs"),
        (["--processes", "2"], "one process is expected"),
        (["--kubeconfig", "/nowhere/config"], "/nowhere/config"),
    ],
)
def test_what_does_not_go_with_a_cluster_is_refused(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--from-cluster", *options]) == 1
    assert said in capsys.readouterr().err
