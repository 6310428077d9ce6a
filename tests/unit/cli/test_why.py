"""What `optimus why` tells of a job, from what the API server holds."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from optimus.cli.job_facts import JobReader
from optimus.cli.kubeconfig import namespace_of
from optimus.cli.main import main
from optimus.cli.why import Explanation, explain, gang_of
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.job_kinds import TRAINER_GROUP
from optimus.kube.server_clock import ServerClock
from optimus.kube.waiting_events import Wait
from tests.cases import cases
from tests.harness.jobsets import jobset_json, pod_json, replicated_job, train_steps
from tests.unit.cli.fake_api import refusal
from tests.unit.kube.job_json import job_json
from tests.unit.kube.test_pytorchjobs import pytorch_job

NOW = 1_767_225_900.0  # 2026-01-01T00:05:00Z
GATE = "example.com/gate"


def pod(role: str, index: int, **fields: Any) -> dict[str, Any]:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "j", "uid": "u"}
    labels = {
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    return {
        "metadata": {
            "name": f"j-{role}-{index}",
            "uid": f"{role}-{index}",
            "namespace": "ns",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": labels,
            "ownerReferences": [{**owner, "controller": True}],
        },
        "spec": {
            "schedulerName": fields.get("scheduler", "optimus-scheduler"),
            "containers": [{"name": "tensorflow"}],
            **({"nodeName": fields["node"]} if "node" in fields else {}),
            "schedulingGates": [{"name": each} for each in fields.get("gates", ())],
        },
        "status": {
            "phase": fields.get("phase", "Pending"),
            "conditions": [
                {"type": "PodScheduled", "status": "False", "message": fields["refusal"]}
            ]
            if "refusal" in fields
            else [],
            "containerStatuses": [
                {
                    "name": "tensorflow",
                    "restartCount": 3,
                    "state": {"waiting": fields["waiting"]},
                    "lastState": fields.get("last", {}),
                }
            ]
            if "waiting" in fields
            else [],
        },
    }


def event(
    reason: str, message: str, kind: str = "Normal", name: str = "j", wait: Wait | None = None
) -> dict[str, Any]:
    annotations = None if wait is None else wait.annotations()
    return {
        "metadata": {"name": f"{name}.{reason}", "annotations": annotations},
        "involvedObject": {"name": name, "uid": "u"},
        "type": kind,
        "reason": reason,
        "message": message,
        "lastTimestamp": "2026-01-01T00:03:00Z",
    }


@dataclass
class Server:
    """An API server that holds these objects."""

    job: dict[str, Any] | None = field(default_factory=job_json)
    pods: Sequence[dict[str, Any]] = ()
    events: Sequence[dict[str, Any]] = ()
    profile: dict[str, Any] | None = None
    forbidden: Sequence[str] = ()
    jobset: dict[str, Any] | None = None
    pytorch_job: dict[str, Any] | None = None
    server_clock: ServerClock = field(default_factory=lambda: ServerClock(now=lambda: NOW))

    def get(self, what: str, path: str, query: Sequence[tuple[str, str]] = ()) -> bytes:
        plural = next(each for each in path.split("/")[::-1] if each not in ("j", "ns"))
        if plural in self.forbidden:
            raise refusal(what, "read", path)
        lists = {"pods": self.pods, "events": self.events}
        if plural in lists:
            items = list(lists[plural])
            return json.dumps({"metadata": {"resourceVersion": "1"}, "items": items}).encode()
        jobs = {"tfjobs": self.job, "jobsets": self.jobset, "pytorchjobs": self.pytorch_job}
        found = {**jobs, "trainingprofiles": self.profile}.get(plural)
        if found is None:
            raise KubeError(ErrorKind.NOT_FOUND, f"cannot {what}: not found")
        return json.dumps(found).encode()


def gang(**fields: Any) -> list[dict[str, Any]]:
    """All pods of the job: 2 PS and 4 workers."""
    roles = [("ps", index) for index in range(2)] + [("worker", index) for index in range(4)]
    return [pod(role, index, **fields) for role, index in roles]


def explained(server: Server, queue: dict[str, Any] | None = None) -> Explanation:
    return explain(JobReader(server).read("ns", "j"), queue)


WAITS = "waits: 4 workers of 1 cpu lack a place (0 of 6 nodes hold one; cpu is short)"


def test_a_job_that_waits_for_others() -> None:
    refusal = "0/6 nodes are available: 6 job ns/j (2 PS + 4 workers) does not fit as a whole"
    found = explained(Server(pods=gang(refusal=refusal), events=[event("Waiting", WAITS)]))
    assert found.text() == (
        "TFJob ns/j waits for nodes: 6 of 6 pods have none\n\n"
        "role    expected  exist  gated  with a node\n"
        "ps             2      2      0            0\n"
        "worker         4      4      0            0\n\n"
        f"why             {WAITS} (Event of 00:03 UTC)\n"
        f"kube-scheduler  {refusal}\n"
        "for             5 min\n\n"
        "What you can do:\n"
        "- wait, or start sooner with fewer replicas, or with replicas that ask for less of what is"
        " short\n"
        "- a PriorityClass in the pod templates puts it before jobs of a lower priority"
    )
    value = found.value()
    assert (value["state"], value["waitedSeconds"]) == ("waiting", 300.0)
    assert json.loads(json.dumps(value))["roles"][1]["expected"] == 4


@pytest.mark.parametrize(
    ("server", "state", "part"),
    [
        pytest.param(
            Server(pods=gang(), events=[event("Waiting", WAITS, wait=Wait(never=True))]),
            "waiting",
            "waiting does not help",
            id="it never fits",
        ),
        pytest.param(
            Server(
                pods=gang(),
                events=[event("Waiting", "w", wait=Wait(never=True, rules=("pod anti-affinity",)))],
            ),
            "waiting",
            "- waiting and a PriorityClass do not help: fewer replicas, other rules than its pod"
            " anti-affinity, or more nodes that they allow\n",
            id="its rules never let it fit",
        ),
        pytest.param(
            Server(pods=gang(), events=[event("Waiting", "w", wait=Wait(rules=("host ports",)))]),
            "waiting",
            "- fewer replicas, other rules than its host ports, or more nodes that they allow; or"
            " wait\n",
            id="its rules do not let it fit now",
        ),
        pytest.param(
            Server(
                pods=gang(),
                events=[event("Waiting", "waits: persistent volume claim data does not exist")],
            ),
            "waiting",
            "fewer replicas do not help; what becomes of the claim: kubectl get pvc data -n ns",
            id="a claim is missing",
        ),
        pytest.param(
            Server(pods=[*gang()[:-1], pod("worker", 3, node="a")]),
            "waiting",
            "5 of 6 pods have none; the other 1 hold their resources",
            id="a part is bound",
        ),
        pytest.param(
            Server(pods=gang()), "waiting", "check that optimus-scheduler runs", id="nobody asked"
        ),
        pytest.param(
            Server(pods=gang(scheduler="other")), "waiting", "the scheduler other", id="another"
        ),
        pytest.param(
            Server(
                pods=gang()[:4],
                events=[event("FailedCreatePod", "exceeded quota: q", "Warning")],
            ),
            "incomplete",
            "- FailedCreatePod: exceeded quota: q",
            id="a quota keeps pods from being created",
        ),
        pytest.param(
            Server(pods=gang(gates=[GATE])), "gated", f"the scheduling gate {GATE}", id="gate"
        ),
        pytest.param(
            Server(
                pods=gang(
                    node="a", waiting={"reason": "ImagePullBackOff", "message": "no such image"}
                )
            ),
            "failing",
            "fails: j-ps-0: ImagePullBackOff: no such image; 5 more pods too",
            id="its image is missing",
        ),
        pytest.param(
            Server(
                pods=gang(
                    node="a",
                    phase="Running",
                    waiting={"reason": "CrashLoopBackOff"},
                    last={"terminated": {"exitCode": 137, "reason": "OOMKilled"}},
                ),
                events=[event("Waiting", WAITS)],
            ),
            "failing",
            "- raise the memory limit of its pods\n- kubectl logs j-ps-0 -n ns --previous",
            id="it crashes, whatever else is told of it",
        ),
        pytest.param(Server(pods=gang(node="a")), "starting", "are starting", id="starting"),
        pytest.param(
            Server(pods=gang(node="a", phase="Running")), "running", "all 6 pods", id="it runs"
        ),
    ],
)
def test_a_state_comes_with_what_helps(server: Server, state: str, part: str) -> None:
    found = explained(server)
    assert found.state == state
    assert part in found.text()


def changed(spec: dict[str, Any], status: dict[str, Any], **annotations: str) -> dict[str, Any]:
    job = job_json(**annotations)
    return {**job, "spec": job["spec"] | spec, "status": status}


def test_a_suspended_job_and_one_that_has_ended() -> None:
    suspended: dict[str, Any] = {"runPolicy": {"suspend": True}}
    found = explained(Server(changed(suspended, {})))
    assert (found.state, found.advice[0][:44]) == (
        "suspended",
        "resume it: kubectl patch tfjob j -n ns --typ",
    )
    ours = explained(Server(changed(suspended, {}, suspended_by="i1")))
    assert "suspended by Optimus" in ours.headline
    assert ours.advice == []
    mark = "preemption/ns/high/u-1/2026-01-01T00:00:00Z one paused-for-gang"
    preempting = event("Preempted", "paused to make room for ns/high, of priority 5")
    preempted = explained(Server(changed(suspended, {}, suspended_by=mark), events=[preempting]))
    assert (preempted.state, preempted.headline) == (
        "preempted",
        "is paused for ns/high",
    )
    assert preempted.lines == [("preemption", f"{preempting['message']} (00:03 UTC)")]
    assert "resumed by itself" in preempted.advice[0]
    failed = {"conditions": [{"type": "Failed", "status": "True", "message": "worker 0 failed"}]}
    assert explained(Server(changed({}, failed))).headline == "has ended: Failed. worker 0 failed"


def test_a_failed_preemption_is_reported_once() -> None:
    failed = event("PreemptionFailed", "they are resumed", "Warning")
    found = explained(Server(pods=gang(), events=[event("Preempting", "preempts ns/low"), failed]))
    assert [each for each in found.lines if "resumed" in each[1] or "preempts" in each[1]] == [
        ("preemption", "they are resumed (00:03 UTC)")
    ]


def test_what_may_not_be_read_is_named_and_the_rest_is_shown() -> None:
    found = explained(Server(pods=gang(), forbidden=("events", "trainingprofiles")))
    assert found.state == "waiting"
    rights = "list events in namespace ns; get trainingprofiles.optimus.dl in namespace ns"
    assert f"incomplete  you may not {rights}; ask an administrator for" in found.text()
    assert "no scheduler has tried" not in found.text(), "an Event that was not read may say it has"


def test_pods_that_may_not_be_read_are_not_said_to_be_missing() -> None:
    found = explained(Server(pods=gang(), forbidden=("pods",)))
    assert (found.state, found.roles, found.advice) == ("unknown", [], [])
    assert "do not exist" not in found.text()
    assert "incomplete  you may not list pods in namespace ns" in found.text()


@pytest.mark.parametrize("is_managed", [True, False])
def test_the_quota_that_refuses_pods_is_named_first(is_managed: bool) -> None:
    quota = "2 of its 6 pods cannot be created: it needs 6 of pods, quota q allows 4"
    profile = {
        "metadata": {"name": "j", "uid": "p", "namespace": "ns"},
        "spec": {"jobRef": {"kind": "TFJob", "name": "j", "uid": "u"}},
        "status": {"phase": "Waiting", "reason": quota},
    }
    waits = event("Waiting", "waits for 2 of 6 pods that do not exist: worker-2, worker-3")
    refused = event("PodsNotCreated", quota, "Warning")
    server = Server(pods=gang()[:4], events=[waits] if is_managed else [waits, refused])
    found = explained(replace(server, profile=profile if is_managed else None))
    assert (found.state, found.headline) == ("incomplete", f"is not whole: {quota}")
    assert "do not exist" not in found.text()


def test_the_quota_in_the_operators_own_event_is_named_first() -> None:
    """Of a job that nobody manages the autoscaler says nothing."""
    quota = "exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4"
    refused = event("FailedCreatePod", f'pods "j-worker-2" is forbidden: {quota}', "Warning")
    other = event("LogNotUnderstood", "no loss", "Warning")
    found = explained(Server(pods=gang()[:4], events=[refused, other]))
    assert found.headline == f"is not whole: {quota}"


def test_the_profile_and_other_warnings_are_shown() -> None:
    profile = {
        "metadata": {"name": "j", "uid": "p", "namespace": "ns"},
        "spec": {"jobRef": {"kind": "TFJob", "name": "j", "uid": "u"}},
        "status": {"phase": "Waiting", "reason": "it is next"},
    }
    warning = event("LogNotUnderstood", "no loss", "Warning")
    text = explained(Server(pods=gang(), profile=profile, events=[warning])).text()
    assert "autoscaler  Waiting: it is next" in text
    assert "warning     j: LogNotUnderstood: no loss" in text


@cases(
    ("started", "restarts", "shown"),
    {
        "before its last start": ("2026-01-01T00:04:00Z", 0, False),
        "since": ("2026-01-01T00:02:00Z", 0, True),
        "since, and a container was restarted later": ("2026-01-01T00:04:00Z", 1, True),
    },
)
def test_a_running_job_is_told_of_what_happened_since_its_last_start(
    started: str, restarts: int, shown: bool
) -> None:
    pods = gang(node="a", phase="Running")
    state = {"running": {"startedAt": started}}
    pods[0]["status"]["startTime"] = "2026-01-01T00:02:00Z"
    pods[0]["status"]["containerStatuses"] = [
        {"name": "tensorflow", "restartCount": restarts, "state": state}
    ]
    old = event("Unschedulable", "no node holds it", "Warning")
    found = explained(Server(pods=pods, events=[old]))
    assert (found.state, "no node holds it" in found.text()) == ("running", shown)


def test_the_extender_adds_the_place_in_the_queue() -> None:
    answer = {
        "leads": True,
        "gang": {
            "state": "waiting",
            "sentence": WAITS,
            "position": 2,
            "jobsAhead": 1,
            "expected": {"at": "2026-01-01T00:40:00Z", "nodes": ["n1", "n2"]},
        },
    }
    text = explained(Server(pods=gang()), answer).text()
    assert "queue     place 2, 1 job before it" in text
    assert "expected  capacity at about 00:40 UTC on n1, n2" in text
    answer["gang"]["expected"]["at"] = "2026-01-03T00:40:00Z"  # type: ignore[index]
    later = explained(Server(pods=gang()), answer).text()
    assert "expected  capacity at about 01-03 00:40 UTC on n1, n2" in later
    other = explained(Server(pods=gang()), {"leads": False, "gang": None}).text()
    assert "does not lead" in other


def test_a_time_that_has_passed_is_not_shown_as_expected() -> None:
    for at, is_shown in (("2026-01-01T00:05:30Z", True), ("2026-01-01T00:04:30Z", False)):
        wait = Wait(awaits="ns/k", expected_at=at)
        server = Server(pods=gang(), events=[event("Waiting", WAITS, wait=wait)])
        answer = {
            "leads": True,
            "gang": {
                "state": "waiting",
                "sentence": WAITS,
                "position": None,
                "jobsAhead": 0,
                "expected": {"at": at, "nodes": ["n1"]},
            },
        }
        lines = [text for word, text in explained(server, answer).lines if word == "expected"]
        assert lines == ["capacity at about 00:05 UTC", "capacity at about 00:05 UTC on n1"] * (
            is_shown
        )


def test_a_job_that_is_not_there_is_said_with_its_namespace() -> None:
    with pytest.raises(
        KubeError,
        match="no TFJob, MXJob, PyTorchJob, JobSet or TrainJob j in namespace ns; -n names another",
    ):
        explained(Server(job=None))
    with pytest.raises(KubeError, match="forbidden"):
        explained(Server(job=None, forbidden=("tfjobs",)))


def test_wrong_arguments_and_no_cluster_are_one_line(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["why", "j", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert "there is no kubeconfig file" in capsys.readouterr().err
    for arguments in (["--inspect", "127.0.0.1:8888"], ["-o", "xml"]):
        with pytest.raises(SystemExit):
            main(["why", "j", *arguments])


def test_the_namespace_is_that_of_the_context(tmp_path: Any) -> None:
    path = tmp_path / "config"
    contexts = [{"name": "c", "context": {"cluster": "x", "namespace": "team"}}]
    path.write_text(json.dumps({"contexts": contexts, "current-context": "c"}))
    assert namespace_of(path, {}) == "team"
    assert namespace_of(None, {"KUBECONFIG": str(path)}) == "team"
    assert namespace_of(tmp_path / "none", {}) == "default"
    several = {"KUBECONFIG": f"{tmp_path / 'none'}{os.pathsep}{path}"}
    assert namespace_of(None, several) == "team"


@pytest.mark.parametrize("context", ["[1]", "x", "7", "null"])
def test_a_context_that_is_none_names_no_namespace(context: str, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(f"contexts: [{{name: c, context: {context}}}]\ncurrent-context: c\n")
    assert namespace_of(path, {}) == "default"


def test_of_several_kubeconfigs_the_first_that_has_a_value_wins(tmp_path: Path) -> None:
    """As with kubectl: one file may hold the current context, another the contexts."""
    texts = (
        "current-context: b\ncontexts: [{name: a, context: {namespace: one}}]\n",
        (
            "current-context: a\ncontexts: [{name: a, context: {namespace: two}},"
            " {name: b, context: {namespace: three}}]\n"
        ),
    )
    files = [tmp_path / "first", tmp_path / "second"]
    for file, text in zip(files, texts, strict=True):
        file.write_text(text)
    both = {"KUBECONFIG": os.pathsep.join(map(str, files))}
    assert namespace_of(None, both) == "three"
    assert namespace_of(None, both, "a") == "one"


def train_job(*pods: dict[str, Any], **fields: Any) -> Explanation:
    """What is told of a TrainJob that fine-tunes on three pods."""
    stored = jobset_json("j", *train_steps(3), owner=TRAINER_GROUP, **fields)
    return explained(Server(job=None, jobset=stored, pods=pods))


def test_a_job_of_one_pod_is_told_of_in_the_singular() -> None:
    stored = jobset_json("j", replicated_job("node"))
    pod = pod_json("j", "node", 0, 0, node="n", phase="Running")
    found = explained(Server(job=None, jobset=stored, pods=(pod,)))
    assert found.headline == "runs: its pod has a node"


def pytorch_server(made_for: Sequence[int], workers: int, **spec: Any) -> Server:
    """A PyTorchJob of a Master and so many workers; each pod was made for a number of workers."""
    stored = {**pytorch_job(workers, **spec), "metadata": job_json()["metadata"]}
    pods = [
        pod("worker" if rank else "master", max(rank - 1, 0), node="n", phase="Running")
        for rank in range(len(made_for))
    ]
    for rank, (each, number) in enumerate(zip(pods, made_for, strict=True)):
        env = {"PET_NNODES": str(number + 1), "RANK": str(rank)}
        each["metadata"]["ownerReferences"][0]["kind"] = "PyTorchJob"
        each["spec"]["containers"][0]["env"] = [{"name": k, "value": v} for k, v in env.items()]
    return Server(job=None, pytorch_job=stored, pods=pods)


def test_pods_that_wait_for_one_another_for_ever_are_told_of() -> None:
    found = explained(pytorch_server((1, 1, 3, 3), 3))
    assert found.state == "apart"
    assert "from 1 worker to 3 workers while it ran" in found.headline
    assert "never meet" in found.headline
    assert '"suspend":true' in found.advice[0]
    assert explained(pytorch_server((3, 3, 3, 3), 3)).state == "running"


def test_workers_above_the_maximum_of_an_elastic_job_are_told_of() -> None:
    found = explained(pytorch_server((), 3, elasticPolicy={"maxReplicas": 2}))
    text = "1 of its 3 workers is above elasticPolicy.maxReplicas, 2"
    assert [said[: len(text)] for word, said in found.lines if word == "surplus"] == [text]


def steps(phase: str) -> list[dict[str, Any]]:
    """The pods that bring data and model."""
    names = ("dataset-initializer", "model-initializer")
    return [pod_json("j", each, 0, 0, node="n", phase=phase) for each in names]


@cases(
    ("pods", "headline", "roles", "later"),
    {
        "the pods that train are created later": (
            steps("Running"),
            "runs: all 2 pods have a node",
            [("worker", 2, 2, 0, 2)],
            "3 pods of node, created once those before them let them",
        ),
        "those that have brought the data are not missed": (
            [*steps("Succeeded"), *(pod_json("j", "node", 0, each, node="n") for each in range(3))],
            "has its nodes; its containers are starting",
            [("worker", 3, 3, 0, 3)],
            "",
        ),
        "of those that train one is missing": (
            [*steps("Succeeded"), *(pod_json("j", "node", 0, each) for each in range(2))],
            "is not whole: 1 of 3 pods do not exist",
            [("worker", 3, 2, 0, 0)],
            "",
        ),
        "none of those that train is there": (
            steps("Succeeded"),
            "is not whole: 3 of 3 pods do not exist",
            [("worker", 3, 0, 0, 0)],
            "",
        ),
        "one of them has ended": (
            [
                *steps("Succeeded"),
                pod_json("j", "node", 0, 0, node="n", phase="Succeeded"),
                *(pod_json("j", "node", 0, each, node="n", phase="Running") for each in (1, 2)),
            ],
            "runs: all 2 pods have a node",
            [("worker", 2, 2, 0, 2)],
            "",
        ),
        "no pod is there yet": (
            [],
            "is not whole: 2 of 2 pods do not exist",
            [("worker", 2, 0, 0, 0)],
            "3 pods of node, created once those before them let them",
        ),
    },
)
def test_of_a_train_job_the_pods_are_expected_that_are_there_now(
    pods: list[dict[str, Any]],
    headline: str,
    roles: list[tuple[str, int, int, int, int]],
    later: str,
) -> None:
    found = train_job(*pods)
    assert (found.job, found.headline, found.roles) == ("TrainJob ns/j", headline, roles)
    assert dict(found.lines).get("later", "") == later


def test_a_restarted_train_job_begins_with_its_first_step() -> None:
    before = [pod_json("j", "node", 0, each, node="n") for each in range(3)]
    found = train_job(*steps("Succeeded"), *before, restarts=1)
    assert found.headline == "is not whole: 2 of 2 pods do not exist"
    found = train_job(*steps("Failed"), conditions=["Failed"])
    assert found.state == "ended"
    assert not dict(found.lines)


def test_a_suspended_train_job_is_resumed_by_its_own_field() -> None:
    (advice,) = train_job(suspend=True).advice
    assert advice == (
        """resume it: kubectl patch trainjob j -n ns --type merge -p '{"spec":{"suspend":false}}'"""
    )


def test_a_job_of_which_some_pods_have_succeeded_is_whole() -> None:
    pods = [
        each for each in gang(node="n", phase="Running") if each["metadata"]["name"] != "j-worker-3"
    ]
    found = explained(Server(pods=[*pods, pod("worker", 3, node="n", phase="Succeeded")]))
    assert found.headline == "runs: all 5 pods have a node"


def test_what_waits_of_a_train_job_is_found_in_the_queue() -> None:
    gangs = [{"uid": "other"}, {"uid": "uid-j/node", "state": "waiting"}]
    assert gang_of(gangs, "uid-j") == gangs[1]
    assert gang_of(gangs, "uid") is None


def test_a_train_job_names_its_scheduler_in_its_runtime() -> None:
    pods = [pod_json("j", each, 0, 0) for each in ("dataset-initializer", "model-initializer")]
    for each in pods:
        each["spec"]["schedulerName"] = "default-scheduler"
    (advice,) = train_job(*pods).advice
    assert "in the runtime that it refers to" in advice
