"""`optimus what-if -f` and `--like`: what is said of a job that comes now."""

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from optimus.cli import arrival, what_if
from optimus.cli.assumptions import Assumed
from optimus.cli.command import INCOMPLETE, Answer, BadInput
from optimus.cli.top import views_of
from optimus.interval.decision_settings import DecisionSettings
from optimus.kube.errors import KubeError
from optimus.kube.job_list import list_jobs
from optimus.kube.snapshot_reader import cluster_or_reason, read_cluster
from optimus.kube.stored_settings import ClusterSettings
from optimus.policies import policy_named
from tests.cases import cases
from tests.unit.cli.fake_api import NOW, FakeApi, pod, profile, stored_state
from tests.unit.kube.job_json import job_json


def node(cpu: str) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {"metadata": {"name": "n"}, "status": {"allocatable": allocatable}}


def quota(cpu: str, used: str) -> dict[str, Any]:
    name = {"name": "compute", "namespace": "ns"}
    status = {"hard": {"requests.cpu": cpu}, "used": {"requests.cpu": used}}
    return {"metadata": name, "spec": {"hard": {"requests.cpu": cpu}}, "status": status}


def replica(role: str, index: int) -> dict[str, Any]:
    """A pod of the job, of one core."""
    body = pod(index)
    name = {"name": f"j-{role}-{index}", "uid": f"u-{role}-{index}"}
    labels = {
        "training.kubeflow.org/job-name": "j",
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    body["metadata"] |= {**name, "labels": labels}
    (container,) = body["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "1"}}
    return body


def training(cpu: str = "64", **fields: Any) -> FakeApi:
    """One job that trains; its six pods take six cores of the one node."""
    state = stored_state(prices=(40.0, 50.0))
    fields.setdefault("jobs", [job_json(target_loss="0.2", min_ps="2", min_workers="4")])
    return FakeApi(
        profiles=[profile(state=state, loss=0.4, goal="loss <= 0.2")],
        pods=[replica("ps", 0), replica("ps", 1), *(replica("worker", n) for n in range(4))],
        nodes=[node(cpu)],
        **fields,
    )


def options(**given: Any) -> argparse.Namespace:
    return argparse.Namespace(**{"ps": None, "workers": None, **given})


def asked(
    api: FakeApi, manifest: str | None = None, like: str | None = None, **given: Any
) -> Answer:
    view = None if like is None else what_if.view_of(api, "ns", like)
    if manifest is not None:
        job = arrival.of_manifest(manifest, "ns", NOW)
    else:
        assert view is not None
        job = arrival.another(view, NOW)
    job = arrival.with_counts(job, options(**given))
    listed = list_jobs(api, None)
    views = views_of(listed)
    assumed = Assumed.of(views, "ns", None)
    found = read_cluster(api, assumed.settings, "ns", job, listed)
    return arrival.answer_of(arrival.ArrivingJob(job, view), found, views, assumed)


def value(answer: Answer) -> dict[str, Any]:
    assert yaml.safe_load(yaml.safe_dump(answer.value)) is not None
    found: dict[str, Any] = json.loads(json.dumps(answer.value, allow_nan=False))
    return found


def manifest(name: str = "new", **annotations: str) -> str:
    given = {"target_loss": "0.2", "min_ps": "2", "min_workers": "4", **annotations}
    body = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", **job_json(**given)}
    del body["metadata"]["uid"], body["metadata"]["namespace"]
    body["metadata"]["name"] = name
    return yaml.safe_dump(body)


def test_another_job_like_one_starts_where_there_is_room_and_ends_after_as_long() -> None:
    answer = asked(training(), like="j")
    found = value(answer)
    assert found["starts"]["seconds"] == {"low": 0, "median": 0, "high": 0}
    left = found["ends"]["seconds"]
    assert 0 < left["low"] < left["median"] < left["high"]
    assert found["like"] == "ns/j"
    assert "It would start at once." in answer.text
    assert "by what ns/j shows" in answer.text
    assert answer.status == 0


def test_it_takes_longer_than_what_the_other_has_left() -> None:
    whole = value(asked(training(), like="j"))["ends"]["seconds"]["median"]
    counts = ("2", "4")
    view = what_if.view_of(training(), "ns", "j")
    present = what_if.asked_counts(view, *map(what_if.change, counts))
    now = what_if.answer_of(view, present, "", Assumed.of([view], "ns", None))
    assert whole > value(now)["now"]["remainingSeconds"]["median"]


def test_a_manifest_waits_for_the_running_job_where_the_nodes_are_full() -> None:
    # 6 cores for the new job; beside the 6 of the other there are only 2.
    answer = asked(training("8"), manifest(), like="j")
    found = value(answer)
    assert found["starts"]["seconds"]["median"] > 0
    assert found["waitsFor"] == ["ns/j"]
    assert found["ends"]["at"] > found["starts"]["at"]
    assert "when ns/j has ended" in answer.text
    assert "Ranges have a probability of 80 %." in answer.text


def test_another_job_is_planned_by_the_policy_of_the_autoscaler() -> None:
    """Under fifo nobody shrinks for it."""
    for policy, shrinks in ((policy_named("optimus"), ["ns/j"]), (policy_named("fifo"), [])):
        settings = ClusterSettings(DecisionSettings(policy))
        api = training("6", jobs=[job_json(target_loss="0.2")])
        state = stored_state(settings=settings, prices=(40.0, 50.0))
        api.profiles = [profile(state=state, loss=0.4, goal="loss <= 0.2")]
        small = manifest(min_ps="1", min_workers="1")
        found = asked(api, small, ps=what_if.change("1"), workers=what_if.change("1"))
        assert value(found)["shrinks"] == shrinks
        assert value(found)["notKnown"] == []


def test_a_quota_that_lacks_is_named() -> None:
    answer = asked(training(quotas=[quota("8", used="6")]), manifest(), like="j")
    assert "quota compute of namespace ns leaves 2 of requests.cpu" in answer.text
    assert value(answer)["waitsFor"] == ["ns/j"]


def test_other_counts_of_a_running_job_heed_its_quota() -> None:
    api = training(quotas=[quota("8", used="6")])
    view = what_if.view_of(api, "ns", "j")
    counts = what_if.asked_counts(view, None, what_if.change("+20"))
    assumed = Assumed.of([view], "ns", None)
    answer = what_if.answer_of(
        view, counts, cluster_or_reason(api, assumed.settings, "ns"), assumed
    )
    assert "It would have to wait: quota compute of namespace ns leaves 8" in answer.text
    assert value(answer)["fits"] is False


def test_quotas_that_may_not_be_read_are_said_not_to_count() -> None:
    answer = asked(training(forbidden=["resourcequotas"]), like="j")
    assert "Not taken into account: you may not list resourcequotas in namespace ns" in answer.text
    assert answer.status == INCOMPLETE
    assert value(answer)["starts"] is not None


def test_without_a_job_like_it_the_end_is_not_known() -> None:
    answer = asked(training(), manifest().replace("cpu: '1'", "cpu: '2'"))
    assert value(answer)["ends"] is None
    assert "When it would end is not known: --like JOB names a job" in answer.text


def test_the_newest_job_of_its_workload_shows_its_duration() -> None:
    jobs = [job_json(target_loss="0.2", workload="nightly", min_ps="2", min_workers="4")]
    found = value(asked(training(jobs=jobs), manifest(workload="nightly")))
    assert found["like"] == "ns/j"
    assert found["ends"] is not None


def test_counts_may_be_others_than_those_of_the_template() -> None:
    found = value(asked(training(), like="j", workers=what_if.change("8")))
    assert (found["ps"], found["workers"]) == (2, 8)
    with pytest.raises(BadInput, match="at least 1 PS and 1 worker"):
        asked(training(), like="j", ps=what_if.change("0"))


def test_a_job_that_fits_nowhere_waits_without_a_known_start() -> None:
    answer = asked(training("8"), like="j", workers=what_if.change("50"))
    assert value(answer)["starts"] is None
    assert answer.status == 1
    assert "It would wait: " in answer.text


@cases(
    ("text", "sentence"),
    {
        "no job": ("kind: Pod", "has 0 jobs"),
        "two jobs": (f"{manifest()}---\n{manifest()}", "has 2 jobs"),
        "no YAML": ("a: [", "is not YAML"),
        "a spec that is none": ("kind: TFJob\nspec: 5", "cannot be read"),
    },
)
def test_a_manifest_that_cannot_be_planned_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        arrival.of_manifest(text, "ns", NOW)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"none\.yaml"):
        arrival.read_text(str(tmp_path / "none.yaml"))


def test_without_the_right_to_see_nodes_it_cannot_be_planned() -> None:
    with pytest.raises(KubeError, match="cannot list nodes"):
        asked(training(forbidden=["nodes"]), like="j")


def test_pods_of_another_namespace_are_none_of_a_job() -> None:
    api = training()
    forged = replica("worker", 4)
    forged["metadata"]["namespace"] = "other"
    api.pods = [*api.pods, forged]
    listed = list_jobs(api, None)
    (job,) = listed.jobs
    assert job.held is not None
    assert job.held["cpu"] == 6000
    snapshot = read_cluster(api, ClusterSettings(), "ns", None, listed).snapshot
    assert snapshot.bound_counts("u") == (2, 4)
    assert snapshot.free()["n"]["cpu"] == 64000 - 7000
