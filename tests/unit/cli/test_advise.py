"""What is advised for jobs of a cluster on which nothing of Optimus is installed."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from optimus.cli import advise
from optimus.cli.command import INCOMPLETE, Answer
from optimus.cli.job_facts import JobReader
from optimus.cli.observed_jobs import NO_METRICS, lines_of_each, observe_jobs
from optimus.cli.status import by_log, in_full
from optimus.kube.job_kinds import TRAINER_GROUP
from optimus.kube.times import format_instant
from tests.cases import cases
from tests.harness.jobsets import jobset_json, pod_json, train_steps
from tests.unit.cli.fake_api import NOW, FakeApi, profile, stored_state
from tests.unit.kube.job_json import job_json

_METRICS = "/apis/metrics.k8s.io/v1beta1/namespaces/ns/pods"


def job(name: str = "j", ps: int = 2, workers: int = 4, **more: Any) -> dict[str, Any]:
    """A job without any annotation of Optimus."""
    found = job_json()
    found["metadata"] |= {"name": name, "uid": f"u-{name}", "annotations": {}}
    found["spec"] |= more.pop("spec", {})
    for role, count in (("PS", ps), ("Worker", workers)):
        found["spec"]["tfReplicaSpecs"][role]["replicas"] = count
    return found | more


def pods(
    of: str = "j", ps: int = 2, workers: int = 4, container: Any = None
) -> Iterator[dict[str, Any]]:
    """Its pods, which run."""
    for role, count in (("ps", ps), ("worker", workers)):
        for index in range(count):
            name, named = f"{of}-{role}-{index}", {"name": "c"}
            limits = {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}}
            owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": of}
            labels = {
                "training.kubeflow.org/job-name": of,
                "training.kubeflow.org/replica-type": role,
                "training.kubeflow.org/replica-index": str(index),
            }
            yield {
                "metadata": {
                    "name": name,
                    "uid": f"u-{name}",
                    "namespace": "ns",
                    "labels": labels,
                    "ownerReferences": [{**owner, "uid": f"u-{of}", "controller": True}],
                },
                "spec": {"nodeName": "n", "containers": [{"name": "c", "resources": limits}]},
                "status": {
                    "phase": "Running",
                    "containerStatuses": [{**(container or {}), **named}],
                },
            }


def log(epochs: int = 8, declared: str = "epochs=40", seconds: float = 30.0, step: int = 10) -> str:
    """A log whose last line is as old as the pause between two lines."""
    lines = [declared] * bool(declared)
    lines += [
        f"epoch={n + 1} step={(n + 1) * step} loss={0.4 + 1.6 / (1 + n):.4f}" for n in range(epochs)
    ]
    first = NOW - seconds * len(lines)
    return "".join(
        f"{format_instant(first + n * seconds)} {line}\n" for n, line in enumerate(lines)
    )


def cluster(**fields: Any) -> FakeApi:
    usual: dict[str, Any] = {
        "jobs": [job()],
        "pods": list(pods()),
        "profiles": None,
        "logs": {"j-worker-0": log()},
    }
    return FakeApi(**{**usual, **fields})


def advised(api: FakeApi, name: str | None = None) -> Answer:
    return advise.answer_of(observe_jobs(api, "ns", () if name is None else (name,)), "ns", name)


def one(api: FakeApi) -> dict[str, Any]:
    (found,) = advised(api).value["jobs"]  # type: ignore[index]
    return dict(found)


def test_a_job_ends_where_its_log_declares_it_and_other_counts_have_a_probability() -> None:
    found = one(cluster())
    assert (found["goal"], found["goalIsDeclared"]) == ("40 epochs", True)
    left = found["remainingSeconds"]
    assert left["low"] <= left["median"] <= left["high"]
    assert left["median"] == pytest.approx(32 * 30 - 30, rel=0.05)
    assert found["countsSeen"] == 1
    assert found["sooner"] or found["larger"]
    for other in (found["sooner"], found["larger"]):
        if other is not None:
            assert 0.65 <= other["probability"] < 1
            assert other["speedUp"]["low"] < other["speedUp"]["median"] < other["speedUp"]["high"]


def without_ps(name: str = "t", workers: int = 3) -> dict[str, Any]:
    """A PyTorchJob of a Master and so many Workers."""
    found = job(name)
    worker = found["spec"].pop("tfReplicaSpecs")["Worker"]
    roles = {"Master": {**worker, "replicas": 1}, "Worker": {**worker, "replicas": workers}}
    return {**found, "kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": roles}}


def ranks(workers: int = 3) -> list[dict[str, Any]]:
    """The pods of such a job; rank 0 is the Master's."""
    found = list(pods("t", 0, workers + 1))
    for rank, each in enumerate(found):
        metadata, role = each["metadata"], "worker" if rank else "master"
        metadata["name"] = f"t-{role}-{max(rank - 1, 0)}"
        metadata["ownerReferences"][0]["kind"] = "PyTorchJob"
        metadata["labels"] |= {
            "training.kubeflow.org/replica-type": role,
            "training.kubeflow.org/replica-index": str(max(rank - 1, 0)),
        }
    return found


@cases(
    ("workers", "size"),
    {"with workers": (3, "1 master + 3 workers"), "alone": (0, "1 master")},
)
def test_a_master_is_one_of_those_that_train(workers: int, size: str) -> None:
    named = [(each["metadata"]["namespace"], each["metadata"]["name"]) for each in ranks(workers)]
    used = [
        {
            "metadata": {"namespace": namespace, "name": name},
            "containers": [{"name": "c", "usage": {"cpu": "250m", "memory": "1Gi"}}],
        }
        for namespace, name in named
    ]
    api = cluster(
        jobs=[without_ps(workers=workers)],
        pods=ranks(workers),
        logs={"t-master-0": log()},
        missing=("mxjobs", "jobsets"),
        others={_METRICS: {"items": used}},
    )
    found = one(api)
    assert (found["problem"], found["trainers"]) == (None, workers + 1)
    assert found["use"]["master"]["uses"]["cpu"] == 250
    assert f"ns/t  {size}  " in advised(api).text
    text = advised(api, "t").text
    assert f"steps/s at {size} (measured for " in text
    assert "the master requests 1 cpu, 2 Gi memory and uses 0.25 cpu, 1 Gi memory now" in text


def test_of_a_job_without_parameter_servers_only_the_end_is_told() -> None:
    running = list(pods("t", 0, 3))
    for each in running:
        each["metadata"]["ownerReferences"][0]["kind"] = "PyTorchJob"
    logs = {"t-worker-0": log()}
    api = cluster(jobs=[without_ps()], pods=running, logs=logs, missing=("mxjobs",))
    found = one(api)
    left = found["remainingSeconds"]
    assert left["low"] == left["median"] == left["high"] == pytest.approx(32 * 30 - 30, rel=0.05)
    assert found["sooner"] is found["larger"] is found["enough"] is None
    text = advised(api, "t").text
    assert "PyTorchJob ns/t:\n" in text
    assert "It has no PSs and declares no optimus.dl/global-batch-size: with each " in text
    assert "no other counts are better" not in text
    listed = advised(api).text
    assert listed.startswith("namespace ns: 1 job has not ended: 1 with an end alone.")
    assert listed.splitlines()[2].split() == ["job", "size", "done", "end", "(UTC)"]


def test_the_speed_of_a_log_of_examples_is_in_examples() -> None:
    lines = [f"Train Epoch: {e} [3200/6400 (50%)]\tLoss: {1 / e:.3f}" for e in range(1, 9)]
    first = NOW - 30.0 * len(lines)
    text = "".join(f"{format_instant(first + n * 30)} {line}\n" for n, line in enumerate(lines))
    api = cluster(logs={"j-worker-0": text}, jobs=[job()])
    assert " 853 examples/s at " in advised(api, "j").text
    assert one(api)["speedUnit"] == "examples/s"


def test_without_a_goal_its_batch_alone_tells_what_other_counts_would_do() -> None:
    stored = without_ps()
    stored["metadata"]["annotations"] = {"optimus.dl/global-batch-size": "64"}
    running = ranks()
    for each in running:
        each["metadata"]["ownerReferences"][0]["uid"] = stored["metadata"]["uid"] = "u"
    logs = {"t-master-0": log()}
    api = cluster(jobs=[stored], pods=running, logs=logs, missing=("mxjobs",))
    facts = JobReader(api).read("ns", "t")
    for text in (advised(api, "t").text, in_full(facts, by_log(api, facts)).text):
        assert "loss 0.6" in text
        assert "steps/s at 1 master + 3 workers" in text
        assert "its end (40 epochs, as its program declares): " in text
        assert "no other counts are better with a probability of 65 %" in text
        assert "PS" not in text


def test_a_job_of_which_neither_an_end_nor_other_counts_are_known_is_not_advised() -> None:
    api = cluster(jobs=[without_ps()], pods=ranks(), logs={"t-master-0": log(declared="")})
    text = advised(replace(api, missing=("mxjobs",))).text
    assert text.startswith("namespace ns: 1 job has not ended: 1 not advised.")
    assert "Not advised:\n  ns/t: its log declares no end, and it has no goal" in text


@cases(
    ("there", "problem"),
    {
        "while they train": (("node",), None),
        "while data are loaded": ((), "none of its pods trains"),
    },
)
def test_of_a_train_job_the_log_of_the_pods_that_train_is_read(
    there: tuple[str, ...], problem: str | None
) -> None:
    stored = jobset_json("t", *train_steps(1), owner=TRAINER_GROUP)
    steps = ("dataset-initializer", "model-initializer", *there)
    made = [pod_json("t", each, 0, 0, node="n", phase="Running") for each in steps]
    loading = log(declared="epochs=3", step=7)
    logs = {each["metadata"]["name"]: loading for each in made} | {"t-node-0-0-0": log()}
    api = cluster(jobs=[{**stored, "kind": "JobSet"}], pods=made, logs=logs, missing=())
    found = one(api)
    assert (found["kind"], found["name"], found["problem"]) == ("TrainJob", "t", problem)
    if problem is None:
        assert (found["goal"], found["workers"]) == ("40 epochs", 1)
        assert advised(api, "t").text.startswith("TrainJob ns/t:")


def test_other_counts_request_no_more_of_anything_where_that_is_said() -> None:
    found = one(cluster(jobs=[job(ps=1, workers=8)], pods=list(pods(ps=1, workers=8))))
    sooner = found["sooner"]
    assert sooner is not None
    assert all(each <= 0 for each in sooner["requestsMore"].values())
    assert (sooner["ps"], sooner["workers"]) != (1, 8)


def test_an_own_goal_is_taken_and_none_is_made_up() -> None:
    own = job()
    own["metadata"]["annotations"] = {"optimus.dl/target-epochs": "20"}
    assert one(cluster(jobs=[own]))["goal"] == "20 epochs"
    endless = cluster(logs={"j-worker-0": log(epochs=20, declared="")})
    found = one(endless)
    assert (found["goal"], found["remainingSeconds"]) == (None, None)
    assert "declares no end" in found["noEnd"]
    again = found["lossAfterAsMuchAgain"]
    assert again["low"] <= again["median"] <= again["high"] < found["loss"]
    assert "that it flattens is no goal" in advised(endless, "j").text


def test_a_goal_that_is_met_leaves_no_time() -> None:
    own = job()
    own["metadata"]["annotations"] = {"optimus.dl/target-loss": "0.9"}
    found = one(cluster(jobs=[own]))
    assert (found["noEnd"], found["sooner"]) == ("its goal is met, and it trains on", None)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"logs": {"j-worker-0": ""}}, "its log is empty"),
        ({"logs": {"j-worker-0": log(1, "")}}, "its log shows 0 s of steady training"),
        (
            {"logs": {"j-worker-0": log(5, seconds=1.0)}},
            "s of steady training at 2 PS + 4 workers; 20 s are needed",
        ),
        ({"logs": {"j-worker-0": "2026-01-01T00:00:00Z hello\n"}}, "no epoch and no step"),
        ({"pods": []}, "none of its pods trains"),
        ({"pods": [], "jobs": [job(spec={"runPolicy": {"suspend": True}})]}, "it is suspended"),
        ({"jobs": [job(workers=0)], "pods": list(pods(workers=0))}, "none of its pods trains"),
    ],
    ids=[
        "empty log",
        "one line",
        "few seconds",
        "no training",
        "no pods",
        "suspended",
        "no worker",
    ],
)
def test_nothing_is_guessed(fields: dict[str, Any], reason: str) -> None:
    answer = advised(cluster(**fields))
    assert "1 job has not ended: 1 not advised." in answer.text
    assert "Not advised:\n  ns/j: " in answer.text
    assert reason in answer.text


def test_an_ended_job_is_only_counted() -> None:
    ended = job("old", status={"conditions": [{"type": "Succeeded", "status": "True"}]})
    answer = advised(cluster(jobs=[job(), ended]))
    assert "1 job has not ended: 1 advised; 1 has ended." in answer.text
    assert "ns/old" not in answer.text
    assert "it has ended: Succeeded" in advised(cluster(jobs=[ended]), "old").text


def test_what_pods_use_and_a_ps_near_its_memory_limit() -> None:
    def used(name: str, memory: str) -> dict[str, Any]:
        usage = {"cpu": "250000000n", "memory": memory}
        return {
            "metadata": {"name": name, "namespace": "ns"},
            "containers": [{"name": "c", "usage": usage}],
        }

    items = [used("j-ps-0", "3900Mi"), used("j-ps-1", "1Gi"), used("j-worker-0", "1Gi")]
    others = {_METRICS: {"metadata": {}, "items": items}}
    answer = advised(cluster(others=others))
    assert "j-ps-0 uses 95% of its memory limit (3.81 of 4 Gi)" in answer.text
    assert "j-ps-1" not in answer.text
    found = one(cluster(others=others))
    assert found["use"]["ps"]["requests"]["cpu"] == 2000
    assert found["use"]["ps"]["uses"]["cpu"] == 500
    assert (
        "PSs request 2 cpu, 4 Gi memory and use 0.5 cpu"
        in advised(cluster(others=others), "j").text
    )


def test_a_pod_that_ended_for_want_of_memory_is_named() -> None:
    last = {"lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}}
    answer = advised(cluster(pods=list(pods(container={"restartCount": 1, **last}))))
    assert (
        "j-ps-0 and 5 more ended for want of memory before: exit code 137 (OOMKilled)"
        in answer.text
    )


def test_a_cluster_without_the_metrics_api_is_no_fault() -> None:
    answer = advised(cluster())
    assert answer.status == 0
    assert f"Not known: {NO_METRICS}." in answer.text


def test_each_right_that_lacks_is_said_once() -> None:
    jobs = [job(), job("k")]
    api = cluster(jobs=jobs, pods=[*pods(), *pods("k")], forbidden=["pods/log"], logs={})
    answer = advised(api)
    assert answer.text.count("you may not get pods/log in namespace ns") == 1
    assert answer.text.count("its log may not be read") == 2
    assert answer.status == INCOMPLETE


def test_a_long_log_is_read_at_its_end_and_its_beginning() -> None:
    """In between lies more than is read."""
    api = cluster(logs={"j-worker-0": log(9000, "epochs=10000", 2.0)})
    found = one(api)
    assert found["goal"] == "10000 epochs"
    assert found["epoch"] == 9000
    assert found["linesRead"] < 5000


def test_a_log_that_has_stopped_is_said_to_be_so() -> None:
    old = log().replace("2026-01-01", "2025-12-31")
    assert (
        "its log has printed nothing for 1 d 0 h" in advised(cluster(logs={"j-worker-0": old})).text
    )


def test_the_profile_of_a_managed_job_is_read_in_place_of_its_log() -> None:
    own = job_json(target_loss="0.2")
    api = FakeApi(jobs=[own], profiles=[profile(state=stored_state())], pods=[])
    found = one(api)
    assert found["linesRead"] == 0
    assert found["countsSeen"] > 1


def test_of_many_jobs_fewer_lines_are_read() -> None:
    assert [lines_of_each(jobs) for jobs in (1, 14, 200, 1000, 10_000)] == [
        *(4000, 4000, 1000, 200, 200)
    ]


def test_counts_of_a_job_that_does_not_say_its_mode_are_better_in_either() -> None:
    assumed, told = job(), job()
    told["metadata"]["annotations"] = {"optimus.dl/training-mode": "async"}
    certain, either = (one(cluster(jobs=[each]))["larger"] for each in (told, assumed))
    assert certain["workers"] > 4
    assert either is None or either["workers"] <= 4
    text = advised(cluster()).text
    assert "nothing says whether the workers step together" in text
    assert "With the annotation optimus.dl/training-mode (sync or async) on a job" in text
