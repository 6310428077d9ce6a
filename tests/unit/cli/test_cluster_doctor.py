"""What `optimus doctor` finds on a cluster, and the command that mends it."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from optimus.cli.cluster_doctor import CHECKS, Finding, Installation, answer_of, findings
from optimus.cli.command import INCOMPLETE
from optimus.cli.main import main
from optimus.cli.rights import Right
from optimus.kube.errors import ErrorKind, KubeError
from tests.cases import cases
from tests.unit.cli.fake_api import FakeApi
from tests.unit.docs.pages import ROOT
from tests.unit.kube.job_json import job_json

SYSTEM = "optimus-system"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
CONFIG = f"/api/v1/namespaces/{SYSTEM}/configmaps/config"
OPERATOR = "/apis/apps/v1/deployments"


def items(*found: Any) -> dict[str, Any]:
    return {"metadata": {"resourceVersion": "1"}, "items": list(found)}


def deployment(name: str, image: str, namespace: str = SYSTEM, **fields: Any) -> dict[str, Any]:
    container = {
        "name": fields.get("container", "autoscaler"),
        "image": image,
        "envFrom": [{"configMapRef": {"name": "settings"}}],
    }
    spec = {"containers": [container], "volumes": [{"configMap": {"name": "config"}}]}
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 2, "template": {"spec": spec}},
        "status": {"readyReplicas": fields.get("ready", 2), "replicas": 2},
    }


def lease(renewed: str = "2026-01-01T00:04:58.000000Z", holder: str = "a") -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 10, "renewTime": renewed}
    return {"metadata": {}, "spec": spec}


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"cpu": "4"}}}


def configuration(**fields: Any) -> dict[str, Any]:
    text = (ROOT / "scheduler-config" / "kube-scheduler-config.yaml").read_text()
    return {"data": {"file.yaml": yaml.safe_dump(yaml.safe_load(text) | fields)}}


def whole() -> dict[str, Any]:
    """A cluster on which everything is right."""
    scheduler = "registry.k8s.io/kube-scheduler:v1.36.3"
    operator = deployment("training-operator", "kubeflow/training-operator:v1.7.0", "kubeflow")
    names = ("trainingprofiles", "workloadprofiles")
    own = [{"name": f"{name}{sub}"} for name in names for sub in ("", "/status")]
    return {
        "/version": {"gitVersion": "v1.36.3+k3s1"},
        "/apis/optimus.dl/v1alpha1": {"resources": own},
        "/apis/kubeflow.org/v1": {"resources": [{"name": "tfjobs"}]},
        f"{DEPLOYMENTS}/optimus-autoscaler": deployment("optimus-autoscaler", "optimus:1"),
        f"{DEPLOYMENTS}/optimus-scheduler": deployment(
            "optimus-scheduler", scheduler, container="kube-scheduler"
        ),
        f"/api/v1/namespaces/{SYSTEM}/configmaps/settings": {
            "data": {"OPTIMUS_NODE_SELECTOR": "pool=a"}
        },
        CONFIG: configuration(),
        f"{LEASES}/{SYSTEM}/leases/optimus-autoscaler": lease(),
        f"{LEASES}/kube-system/leases/optimus-scheduler": lease(),
        OPERATOR: items(operator),
        "/api/v1/nodes": items(node("n")),
    }


def found(api: FakeApi) -> dict[str, Finding]:
    return findings(Installation(api, SYSTEM))


def test_a_cluster_on_which_everything_is_right() -> None:
    answer = answer_of(found(FakeApi(others=whole())))
    assert answer.status == 0
    assert "To fix it" not in answer.text
    assert answer.text.endswith("10 checks: no problems, no warnings")
    assert [each["state"] for each in answer.value["findings"]] == ["ok"] * 10  # type: ignore[index]
    assert [each["what"] for each in answer.value["findings"]] == [*CHECKS]  # type: ignore[index]
    json.dumps(answer.value, allow_nan=False)


def replaced(path: str, value: Any) -> Callable[[], FakeApi]:
    return lambda: FakeApi(others={**whole(), path: value})


def gone(*paths: str) -> Callable[[], FakeApi]:
    return lambda: FakeApi(others=whole(), gone=paths)


def changed(name: str, image: str, **fields: Any) -> Callable[[], FakeApi]:
    """With a Deployment whose spec and status are others."""
    body = deployment(name, image)
    for part, values in fields.items():
        body[part] |= values
    return replaced(f"{DEPLOYMENTS}/{name}", body)


AUTOSCALER, SCHEDULER = "optimus-autoscaler", "optimus-scheduler"
KUBE_SCHEDULER = "registry.k8s.io/kube-scheduler:v1.36.3"


@cases(
    ("api", "what", "state", "text", "remedy"),
    {
        "an old Kubernetes": (
            replaced("/version", {"gitVersion": "v1.31.9"}),
            *("Kubernetes", "problem", "v1.31.9; 1.32 or newer is needed", "upgrade the control"),
        ),
        "no CRD": (
            gone("/apis/optimus.dl/v1alpha1"),
            *("CRDs", "problem", "does not serve trainingprofiles", "-k manifests/crds"),
        ),
        "a CRD without its subresource": (
            replaced("/apis/optimus.dl/v1alpha1", {"resources": [{"name": "trainingprofiles"}]}),
            *("CRDs", "problem", "trainingprofiles/status", "-k manifests/crds"),
        ),
        "no training operator": (
            gone("/apis/kubeflow.org/v1"),
            *("training operator", "problem", "neither TFJobs nor MXJobs", "training-operator"),
        ),
        "an operator that is not ready": (
            replaced(
                OPERATOR, items(deployment("t", "k/training-operator:v1.7.0", "kubeflow", ready=0))
            ),
            *("training operator", "problem", "no pod of a job is made", "-n kubeflow describe"),
        ),
        "no autoscaler": (
            gone(f"{DEPLOYMENTS}/{AUTOSCALER}"),
            *("autoscaler", "problem", f"there is no deployment {AUTOSCALER}", "-k manifests"),
        ),
        "an autoscaler that is not ready": (
            changed(AUTOSCALER, "o:1", status={"readyReplicas": 0}),
            *("autoscaler", "problem", "0 of 2 pods of deployment", "describe deployment"),
        ),
        "no standby": (
            changed(AUTOSCALER, "o:1", status={"readyReplicas": 1}),
            *("autoscaler", "warning", "1 of 2 pods of deployment", "describe deployment"),
        ),
        "an autoscaler whose pods are refused": (
            changed(AUTOSCALER, "o:1", status={"replicas": 0, "readyReplicas": 0}),
            *("autoscaler", "problem", "none of the 2 pods", "get events"),
        ),
        "a scheduler of no replicas": (
            changed(
                SCHEDULER,
                KUBE_SCHEDULER,
                spec={"replicas": 0},
                status={"replicas": 0, "readyReplicas": 0},
            ),
            *("scheduler", "problem", "scaled to 0", f"scale deployment/{SCHEDULER} --replicas=2"),
        ),
        "a configuration without the extender": (
            replaced(CONFIG, configuration(extenders=[])),
            *("scheduler's configuration", "problem", "names no extender", "-k manifests"),
        ),
        "no profile of the name": (
            replaced(CONFIG, configuration(profiles=[{"schedulerName": "x"}])),
            *("scheduler's configuration", "problem", "schedulerName optimus-sch", "-k manifests"),
        ),
        "a sample of the nodes": (
            replaced(CONFIG, configuration(percentageOfNodesToScore=50)),
            *("scheduler's configuration", "problem", "percentageOfNodesTo", "-k manifests"),
        ),
        "no configuration": (
            replaced(CONFIG, {"data": {"other": "a: [", "more": "text"}}),
            *("scheduler's configuration", "problem", "KubeSchedulerConfigu", "-k manifests"),
        ),
        "no Lease": (
            gone(f"{LEASES}/{SYSTEM}/leases/{AUTOSCALER}"),
            *("autoscaler's Lease", "problem", "nothing leads", f"name={AUTOSCALER}"),
        ),
        "a Lease that has run out": (
            replaced(f"{LEASES}/kube-system/leases/{SCHEDULER}", lease("2026-01-01T00:00:00Z")),
            *("scheduler's Lease", "problem", "a has not renewed", f"name={SCHEDULER}"),
        ),
        "an empty pool": (
            replaced("/api/v1/nodes", items()),
            *("nodes", "problem", "no node with the labels pool=a", "label node NODE pool=a"),
        ),
        "a cordoned pool": (
            replaced("/api/v1/nodes", items(node("n", unschedulable=True))),
            *("nodes", "problem", "1 of 1 nodes", "uncordon"),
        ),
    },
)
def test_a_fault_is_named_with_what_remedies_it(
    api: Callable[[], FakeApi], what: str, state: str, text: str, remedy: str
) -> None:
    answered = found(api())
    assert [name for name, each in answered.items() if each.state != "ok"] == [what]
    assert answered[what].state == state
    assert text in answered[what].text
    assert remedy in answered[what].remedy
    answer = answer_of(answered)
    assert answer.status == (state == "problem")
    assert answered[what].remedy in answer.text


@pytest.mark.parametrize("lease_is_there", [True, False])
def test_nothing_is_said_of_pods_that_do_not_exist(lease_is_there: bool) -> None:
    """At 0 replicas there are no pods to describe, and none whose log says why nothing leads."""
    stopped = {"replicas": 0, "readyReplicas": 0}
    api = changed(SCHEDULER, KUBE_SCHEDULER, spec={"replicas": 0}, status=stopped)()
    path = f"{LEASES}/kube-system/leases/{SCHEDULER}"
    old = {path: lease("2026-01-01T00:00:00Z")} if lease_is_there else {}
    api.others, api.gone = {**api.others, **old}, () if lease_is_there else (path,)
    answered = found(api)
    assert {n for n, e in answered.items() if e.state != "ok"} == {"scheduler", "scheduler's Lease"}
    scale = f"kubectl -n {SYSTEM} scale deployment/{SCHEDULER} --replicas=2"
    assert {answered["scheduler"].remedy, answered["scheduler's Lease"].remedy} == {scale}
    text = answer_of(answered).text
    assert text.count(scale) == 1
    assert "pods" not in text.partition("To fix it")[2]


def test_a_daemon_set_that_no_node_takes_has_no_pods_either() -> None:
    path = f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets/optimus-extender"
    daemon_set = {
        "metadata": {"name": "optimus-extender", "namespace": SYSTEM},
        "status": {"desiredNumberScheduled": 0, "numberReady": 0, "currentNumberScheduled": 0},
    }
    behind = {**whole(), path: daemon_set}
    scheduler = found(FakeApi(others=behind, gone=[f"{DEPLOYMENTS}/{SCHEDULER}"]))["scheduler"]
    assert (scheduler.state, "describe" in scheduler.remedy) == ("problem", False)
    daemon_set["status"] = {
        "desiredNumberScheduled": 3,
        "numberReady": 2,
        "currentNumberScheduled": 3,
    }
    answered = found(FakeApi(others=behind, gone=[f"{DEPLOYMENTS}/{SCHEDULER}"]))
    assert answered["scheduler"].text.startswith("2 of 3 pods of daemonset optimus-extender")
    assert answered["scheduler's configuration"].state == "ok"


def stopped(mark: str, suspended: bool = True) -> dict[str, Any]:
    job = job_json(suspended_by=mark)
    job["spec"]["runPolicy"] = {"suspend": suspended}
    return job


def test_jobs_that_no_autoscaler_resumes_are_named_with_what_resumes_each() -> None:
    lease_path = f"{LEASES}/{SYSTEM}/leases/{AUTOSCALER}"
    jobs = [stopped("i-1 one paused-by-policy")]
    assert found(FakeApi(jobs, others=whole()))["paused jobs"].state == "ok"
    finding = found(FakeApi(jobs, others=whole(), gone=(lease_path,)))["paused jobs"]
    assert finding.text == "no autoscaler leads that resumes TFJob ns/j"
    assert finding.remedy == (
        "kubectl -n ns patch tfjob j --type=merge -p "
        '\'{"metadata":{"annotations":{"optimus.dl/suspended-by":null}},'
        '"spec":{"runPolicy":{"suspend":false}}}\''
    )
    others = [stopped("i-1 one for-good"), stopped("i-1 one", suspended=False), job_json()]
    none = FakeApi(others, others=whole(), gone=(lease_path,))
    assert found(none)["paused jobs"].state == "ok"


def as_viewer() -> FakeApi:
    """Somebody with the ClusterRole view in one namespace, which is not that of Optimus."""
    return FakeApi(
        others=whole(),
        forbidden=["optimus-autoscaler", "optimus-scheduler", "deployments", "nodes"],
    )


def test_what_a_viewer_may_not_read_is_one_sentence_with_whom_to_ask() -> None:
    answer = answer_of(found(as_viewer()))
    assert answer.status == INCOMPLETE
    assert "forbidden" not in answer.text
    assert "unknown" not in answer.text
    assert answer.text.count("you may not") == 1
    (sentence,) = [each for each in answer.text.splitlines() if each.startswith("Not checked:")]
    assert sentence == (
        "Not checked: training operator, autoscaler, autoscaler's Lease, paused jobs, scheduler,"
        " scheduler's configuration, scheduler's Lease, nodes, since you may not list"
        " deployments.apps; get deployments.apps in namespace optimus-system."
    )
    for role in ("--clusterrole=optimus-doctor", "-n optimus-system create rolebinding"):
        assert role in answer.text
    assert "kubectl optimus status" in answer.text, "what needs no more rights"
    assert answer.text.endswith("Incomplete: 2 checks: no problems, no warnings; 8 not made")
    assert answer.value["complete"] is False  # type: ignore[index]


def test_a_problem_outweighs_what_could_not_be_read() -> None:
    api = as_viewer()
    api.gone = ["/apis/optimus.dl/v1alpha1"]
    answer = answer_of(found(api))
    assert answer.status == 1
    assert "To fix it (with the rights of an administrator):" in answer.text


@dataclass
class Busy(FakeApi):
    """Does not answer one path."""

    busy: str = ""

    def get(
        self, what: str, path: str, query: Any = (), read_seconds: float | None = None
    ) -> bytes:
        if path.endswith(self.busy):
            raise KubeError(ErrorKind.TRANSIENT, f"cannot {what}: too busy (HTTP 503)")
        return super().get(what, path, query, read_seconds)


def test_what_cannot_be_read_costs_one_check_alone() -> None:
    answered = found(Busy(others=whole(), busy="/nodes"))
    assert [what for what, each in answered.items() if each.state != "ok"] == ["nodes"]
    answer = answer_of(answered)
    assert answer.status == INCOMPLETE
    assert "cannot list nodes: too busy (HTTP 503)" in answer.text
    assert "Not checked" not in answer.text


def test_an_api_server_that_says_nothing_is_an_error() -> None:
    with pytest.raises(KubeError, match="cannot read the API server's version"):
        found(Busy(others=whole(), busy="/version"))


def test_doctor_without_a_log_asks_the_cluster(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["doctor", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert "optimus: doctor: there is no kubeconfig file" in capsys.readouterr().err


def granted(file: str, role: str) -> set[Right]:
    for document in yaml.safe_load_all((ROOT / "manifests" / file).read_text()):
        if document["kind"] == "ClusterRole" and document["metadata"]["name"] == role:
            return {
                Right(verb, group, resource)
                for rule in document["rules"]
                for group in rule["apiGroups"]
                for resource in rule["resources"]
                for verb in rule["verbs"]
            }
    raise AssertionError(f"no ClusterRole {role} in {file}")


def test_the_role_of_doctor_has_what_it_reads_beside_the_role_view_of_its_namespace() -> None:
    rights = granted("rbac-doctor.yaml", "optimus-doctor")
    wanted = {
        *(("list", "apps", "deployments"), ("list", "", "nodes")),
        *(("get", "coordination.k8s.io", "leases"), ("list", "kubeflow.org", "tfjobs")),
    }
    assert {Right(*each) for each in wanted} <= rights
    assert {each.resource for each in rights} == {
        *("deployments", "nodes", "leases", "tfjobs", "mxjobs", "pytorchjobs", "jobsets")
    }
