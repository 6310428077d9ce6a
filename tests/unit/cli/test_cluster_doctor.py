"""What `optimus doctor` finds on a cluster, and the command that mends it."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from optimus.cli.cluster_doctor import Examined, Finding, answer_of, findings
from optimus.cli.command import INCOMPLETE
from optimus.cli.main import main
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.rights import AUTOSCALER_RIGHTS, NAMESPACED_RIGHTS, SCHEDULER_RIGHTS, Right
from tests.unit.cli.fake_api import NOW, FakeApi
from tests.unit.docs.pages import ROOT
from tests.unit.kube.job_json import job_json

SYSTEM = "optimus-system"
DEPLOYMENTS = f"/apis/apps/v1/namespaces/{SYSTEM}/deployments"
LEASES = "/apis/coordination.k8s.io/v1/namespaces"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
CONFIG = f"/api/v1/namespaces/{SYSTEM}/configmaps/config"
OPERATOR = "/apis/apps/v1/deployments"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/kubeflow/endpointslices"


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
        "status": {"readyReplicas": fields.get("ready", 2)},
    }


def lease(renewed: str = "2026-01-01T00:04:58.000000Z", holder: str = "a") -> dict[str, Any]:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 10, "renewTime": renewed}
    return {"metadata": {}, "spec": spec}


def node(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": spec, "status": {"allocatable": {"cpu": "4"}}}


def webhook() -> dict[str, Any]:
    service = {"namespace": "kubeflow", "name": "training-operator"}
    rules = [{"apiGroups": ["kubeflow.org"], "resources": ["tfjobs"]}]
    return {
        "metadata": {"name": "validator"},
        "webhooks": [{"clientConfig": {"service": service}, "rules": rules}],
    }


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
            "data": {"OPTIMUS_NODE_SELECTOR": "pool=a", "OPTIMUS_OPERATOR_VERSION": "1.7.0"}
        },
        CONFIG: configuration(),
        f"{LEASES}/{SYSTEM}/leases/optimus-autoscaler": lease(),
        f"{LEASES}/kube-system/leases/optimus-scheduler": lease(),
        OPERATOR: items(operator),
        WEBHOOKS: items(webhook()),
        SLICES: items({"endpoints": [{"conditions": {"ready": True}}]}),
        "/api/v1/nodes": items(node("n")),
    }


def found(api: FakeApi, skew: float = 0.0) -> list[Finding]:
    return list(findings(Examined(api, "ns", SYSTEM, local_clock=lambda: NOW + skew)))


def test_a_cluster_on_which_everything_is_right() -> None:
    answer = answer_of(found(FakeApi(others=whole())))
    assert answer.status == 0
    assert "problem  " not in answer.text
    assert "To fix it" not in answer.text
    assert answer.text.endswith("17 checks: no problems, no warnings")
    assert {each["state"] for each in answer.value["findings"]} == {"ok"}  # type: ignore[index]
    json.dumps(answer.value, allow_nan=False)


def replaced(path: str, value: Any) -> Callable[[], FakeApi]:
    return lambda: FakeApi(others={**whole(), path: value})


def gone(*paths: str) -> Callable[[], FakeApi]:
    return lambda: FakeApi(others=whole(), gone=paths)


FAULTS = [
    pytest.param(
        replaced("/version", {"gitVersion": "v1.31.9"}),
        *("Kubernetes", "problem", "v1.31.9; 1.32 or newer is needed", "upgrade the control"),
        id="an old Kubernetes",
    ),
    pytest.param(
        gone("/apis/optimus.dl/v1alpha1"),
        *("trainingprofiles.optimus.dl", "problem", "no such kind", "-k manifests/crds"),
        id="no CRD",
    ),
    pytest.param(
        replaced("/apis/optimus.dl/v1alpha1", {"resources": [{"name": "trainingprofiles"}]}),
        *("trainingprofiles.optimus.dl", "problem", "status is missing", "-k manifests/crds"),
        id="a CRD without its subresource",
    ),
    pytest.param(
        gone("/apis/kubeflow.org/v1"),
        *("job kinds", "problem", "neither TFJobs nor MXJobs", "training-operator"),
        id="no training operator",
    ),
    pytest.param(
        gone(f"{DEPLOYMENTS}/optimus-autoscaler"),
        *("autoscaler", "problem", "there is no deployment optimus-autoscaler", "-k manifests"),
        id="no autoscaler",
    ),
    pytest.param(
        replaced(
            f"{DEPLOYMENTS}/optimus-autoscaler", deployment("optimus-autoscaler", "o:1", ready=0)
        ),
        *("autoscaler", "problem", "0 of 2 pods are ready", "describe pods"),
        id="an autoscaler that is not ready",
    ),
    pytest.param(
        replaced(
            f"{DEPLOYMENTS}/optimus-autoscaler", deployment("optimus-autoscaler", "o:1", ready=1)
        ),
        *("autoscaler", "warning", "1 of 2 pods are ready", "describe pods"),
        id="no standby",
    ),
    pytest.param(
        replaced(
            f"{DEPLOYMENTS}/optimus-scheduler",
            deployment("optimus-scheduler", "r/kube-scheduler:v1.33.1", container="kube-scheduler"),
        ),
        *("scheduler's version", "warning", "needs v1.36", "set image deployment/optimus-sch"),
        id="a kube-scheduler of another version",
    ),
    pytest.param(
        replaced(CONFIG, configuration(extenders=[])),
        *("scheduler's configuration", "problem", "names no extender", "-k manifests"),
        id="a configuration without the extender",
    ),
    pytest.param(
        replaced(CONFIG, configuration(profiles=[{"schedulerName": "x"}])),
        *("scheduler's configuration", "problem", "schedulerName optimus-sch", "-k manifests"),
        id="no profile of the name",
    ),
    pytest.param(
        replaced(CONFIG, configuration(percentageOfNodesToScore=50)),
        *("scheduler's configuration", "warning", "percentageOfNodesToScore", "-k manifests"),
        id="a sample of the nodes",
    ),
    pytest.param(
        replaced(CONFIG, {"data": {"other": "a: [", "more": "text"}}),
        *("scheduler's configuration", "problem", "KubeSchedulerConfiguration", "-k manifests"),
        id="no configuration",
    ),
    pytest.param(
        gone(f"{LEASES}/{SYSTEM}/leases/optimus-autoscaler"),
        *("autoscaler's Lease", "problem", "nothing leads", "logs deployment/optimus-autos"),
        id="no Lease",
    ),
    pytest.param(
        replaced(
            f"{LEASES}/kube-system/leases/optimus-scheduler", lease("2026-01-01T00:00:00Z", "b")
        ),
        *("scheduler's Lease", "problem", "b has not renewed", "logs deployment/optimus-sch"),
        id="a Lease that has run out",
    ),
    pytest.param(
        replaced(
            f"{LEASES}/kube-system/leases/optimus-scheduler", lease("2026-01-01T00:06:00Z", "b")
        ),
        *("scheduler's Lease", "warning", "60 s ahead", "timedatectl"),
        id="a leader whose clock is ahead",
    ),
    pytest.param(
        replaced(OPERATOR, items(deployment("t", "kubeflow/training-operator:v1.9.3", "kubeflow"))),
        *("training operator", "warning", "OPERATOR_VERSION says 1.7.0", "VERSION=1.9.3"),
        id="the setting names another operator",
    ),
    pytest.param(
        replaced(
            OPERATOR, items(deployment("t", "k/training-operator:v1.7.0", "kubeflow", ready=0))
        ),
        *("training operator", "problem", "no pod of a job is made", "-n kubeflow logs"),
        id="an operator that is not ready",
    ),
    pytest.param(
        replaced(SLICES, items({"endpoints": [{"conditions": {"ready": False}}]})),
        *("webhook", "problem", "no job can be changed", "-n kubeflow get pods"),
        id="a webhook that nobody answers",
    ),
    pytest.param(
        replaced("/api/v1/nodes", items()),
        *("nodes", "problem", "no node with the labels pool=a", "kubectl label node NODE pool=a"),
        id="an empty pool",
    ),
    pytest.param(
        replaced("/api/v1/nodes", items(node("n", unschedulable=True))),
        *("nodes", "problem", "all 1 nodes", "uncordon"),
        id="a cordoned pool",
    ),
    pytest.param(
        lambda: FakeApi(others=whole(), refused=lambda spec: "user" not in spec),
        *("your rights", "warning", "you may not list tfjobs.kubeflow.org", "rolebinding"),
        id="a user without rights",
    ),
    pytest.param(
        lambda: FakeApi(
            others=whole(),
            refused=lambda spec: (
                spec.get("user", "").endswith("optimus-autoscaler")
                and spec["resourceAttributes"]["subresource"] == "log"
            ),
        ),
        *("autoscaler's rights", "warning", "no log is read", "create rolebinding"),
        id="an account that may read no logs in the user's namespace",
    ),
    pytest.param(
        lambda: FakeApi(
            others=whole(),
            refused=lambda spec: (
                spec.get("user", "").endswith("optimus-autoscaler")
                and spec["resourceAttributes"]["resource"] == "trainingprofiles"
            ),
        ),
        *("autoscaler's rights", "problem", "trainingprofiles", "rbac-autoscaler.yaml"),
        id="an account without a right",
    ),
    pytest.param(
        lambda: FakeApi(others=whole(), forbidden=["subjectaccessreviews"]),
        *("autoscaler's rights", "unknown", "you may not create subjectaccessreviews", ""),
        id="a user who may not ask for others",
    ),
]


def stopped(mark: str, suspended: bool = True) -> dict[str, Any]:
    job = job_json(suspended_by=mark)
    job["spec"]["runPolicy"] = {"suspend": suspended}
    return job


def test_jobs_that_no_autoscaler_resumes_are_named_with_what_resumes_each() -> None:
    lease_path = f"{LEASES}/{SYSTEM}/leases/optimus-autoscaler"
    jobs = [stopped("i-1 one paused-by-policy")]
    leading = FakeApi(jobs, others=whole())
    assert not [each for each in found(leading) if each.what == "paused jobs"]
    left = FakeApi(jobs, others=whole(), gone=(lease_path,))
    (finding,) = [each for each in found(left) if each.what == "paused jobs"]
    assert finding.text == "no autoscaler resumes TFJob ns/j, which one has paused"
    assert finding.mend == (
        "kubectl -n ns patch tfjob j --type=merge -p "
        '\'{"metadata":{"annotations":{"optimus.dl/suspended-by":null}},'
        '"spec":{"runPolicy":{"suspend":false}}}\''
    )
    others = [stopped("i-1 one for-good"), stopped("i-1 one", suspended=False), job_json()]
    none = FakeApi(others, others=whole(), gone=(lease_path,))
    assert not [each for each in found(none) if each.what == "paused jobs"]


@pytest.mark.parametrize(("api", "what", "state", "text", "mend"), FAULTS)
def test_a_fault_is_named_with_what_mends_it(
    api: Callable[[], FakeApi], what: str, state: str, text: str, mend: str
) -> None:
    answered = found(api())
    (finding,) = [each for each in answered if each.what == what and each.state != "ok"]
    assert finding.state == state
    assert text in finding.text
    assert mend in finding.mend
    answer = answer_of(answered)
    assert answer.status == {"problem": 1, "unknown": INCOMPLETE}.get(state, 0)
    assert finding.mend in answer.text


@pytest.mark.parametrize("skew", [90.0, -90.0])
def test_a_clock_that_differs_is_a_warning(skew: float) -> None:
    (clock,) = [each for each in found(FakeApi(others=whole()), skew) if each.what == "clock"]
    assert clock.state == "warning"
    assert f"90 s {'ahead of' if skew > 0 else 'behind'} the API server" in clock.text


def test_behind_the_clusters_own_scheduler_the_extenders_pods_are_checked() -> None:
    path = f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets/optimus-extender"
    daemon_set = {
        "metadata": {"name": "optimus-extender", "namespace": SYSTEM},
        "status": {"desiredNumberScheduled": 3, "numberReady": 2},
    }
    api = FakeApi(others={**whole(), path: daemon_set}, gone=[f"{DEPLOYMENTS}/optimus-scheduler"])
    (extender,) = [each for each in found(api) if each.what == "extender"]
    assert (extender.state, extender.text) == ("warning", "2 of 3 pods are ready")


def as_viewer() -> FakeApi:
    """Somebody with the ClusterRole view in one namespace, which is not that of Optimus."""
    return FakeApi(
        others=whole(),
        forbidden=[
            *("optimus-autoscaler", "optimus-scheduler", "deployments", "nodes"),
            *("validatingwebhookconfigurations", "subjectaccessreviews"),
        ],
        refused=lambda spec: spec["resourceAttributes"]["verb"] == "patch",
    )


def test_what_a_viewer_may_not_read_is_one_sentence_with_whom_to_ask() -> None:
    answer = answer_of(found(as_viewer()))
    assert answer.status == INCOMPLETE
    assert "forbidden" not in answer.text
    assert "unknown" not in answer.text
    assert answer.text.count("you may not") == 1
    (sentence,) = [each for each in answer.text.splitlines() if each.startswith("Not checked:")]
    assert sentence == (
        "Not checked: autoscaler, scheduler, autoscaler's Lease, scheduler's Lease, training"
        " operator, webhook, nodes, autoscaler's rights, scheduler's rights, since you may not get"
        " deployments.apps in namespace optimus-system; get leases.coordination.k8s.io in namespace"
        " optimus-system; get leases.coordination.k8s.io in namespace kube-system; list"
        " deployments.apps; list validatingwebhookconfigurations.admissionregistration.k8s.io; list"
        " nodes; create subjectaccessreviews.authorization.k8s.io."
    )
    for role in ("--clusterrole=optimus-doctor", "-n optimus-system create rolebinding"):
        assert role in answer.text
    assert "kubectl optimus status" in answer.text, "what needs no more rights"
    assert "all commands but pause and resume work in namespace ns" in answer.text
    assert answer.text.endswith("Incomplete: 6 checks: no problems, no warnings; 9 not made")
    assert answer.value["complete"] is False  # type: ignore[index]
    assert "list nodes" in answer.value["lacking"]  # type: ignore[index]


def test_a_problem_outweighs_what_could_not_be_read() -> None:
    api = as_viewer()
    api.gone = ["/apis/optimus.dl/v1alpha1"]
    answer = answer_of(found(api))
    assert answer.status == 1
    assert "To fix it (with the rights of an administrator):" in answer.text


def test_a_check_that_fails_for_another_reason_is_shown_as_it_is() -> None:
    class Busy(FakeApi):
        def get(
            self, what: str, path: str, query: Any = (), read_seconds: float | None = None
        ) -> bytes:
            if path.endswith("/nodes"):
                raise KubeError(ErrorKind.TRANSIENT, f"cannot {what}: too busy (HTTP 503)")
            return super().get(what, path, query, read_seconds)

    answer = answer_of(found(Busy(others=whole())))
    assert answer.status == INCOMPLETE
    assert "unknown  nodes" in answer.text
    assert "cannot list nodes: too busy (HTTP 503)" in answer.text
    assert "Not checked" not in answer.text


def test_what_may_not_be_read_costs_one_finding_each() -> None:
    forbidden = ["nodes", "optimus-autoscaler", "deployments"]
    states = {each.what: each.state for each in found(FakeApi(others=whole(), forbidden=forbidden))}
    assert states["nodes"] == states["training operator"] == "unknown"
    assert states["scheduler"] == "ok"


def test_an_api_server_that_says_nothing_is_an_error() -> None:
    with pytest.raises(KubeError, match="not found"):
        found(FakeApi())


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


def test_the_autoscalers_rights_are_those_of_its_manifest() -> None:
    assert set(AUTOSCALER_RIGHTS) == granted("rbac-autoscaler.yaml", "optimus-autoscaler")


def test_each_right_about_pods_is_a_role_of_its_own() -> None:
    for role, right in NAMESPACED_RIGHTS.items():
        assert granted("rbac-autoscaler.yaml", role) == {right}


def test_rights_in_chosen_namespaces_are_enough_for_their_users() -> None:
    """At the cluster scope the API server says no, in the user's namespace yes."""
    api = FakeApi(
        others=whole(),
        refused=lambda spec: (
            spec.get("user", "").endswith("optimus-autoscaler")
            and spec["resourceAttributes"]["resource"] == "pods"
            and spec["resourceAttributes"]["subresource"] in ("log", "status")
            and not spec["resourceAttributes"]["namespace"]
        ),
    )
    (text, *others) = [each for each in found(api) if each.what == "autoscaler's rights"]
    assert (text.state, others) == ("ok", [])


def test_an_extender_that_may_not_read_the_autoscalers_lease_is_a_warning() -> None:
    """Only on which kind of nodes new jobs start depends on it."""
    api = FakeApi(
        others=whole(),
        refused=lambda spec: (
            spec.get("user", "").endswith("optimus-scheduler")
            and spec["resourceAttributes"]["resource"] == "leases"
            and spec["resourceAttributes"]["name"] == "optimus-autoscaler"
        ),
    )
    own, orders = [each for each in found(api) if each.what == "scheduler's rights"]
    assert (own.state, orders.state) == ("ok", "warning")
    assert "may not get leases.coordination.k8s.io in namespace optimus-system" in orders.text
    assert "rbac-scheduler.yaml" in orders.mend
    (role,) = [
        each
        for each in yaml.safe_load_all((ROOT / "manifests" / "rbac-scheduler.yaml").read_text())
        if (each["kind"], each["metadata"].get("namespace")) == ("Role", "optimus-system")
    ]
    assert role["rules"] == [
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["optimus-autoscaler"],
            "verbs": ["get"],
        }
    ]


def test_the_schedulers_rights_are_those_of_its_manifest_and_of_kube_scheduler() -> None:
    own = granted("rbac-scheduler.yaml", "optimus-scheduler")
    assert own <= set(SCHEDULER_RIGHTS)
    beyond = {(each.verb, each.resource) for each in set(SCHEDULER_RIGHTS) - own}
    binds = {("create", "pods/binding"), ("patch", "pods/status")}
    assert beyond == binds | {("create", "events"), ("patch", "events")}


def test_the_role_of_doctor_has_what_the_role_view_of_its_namespace_lacks() -> None:
    """A viewer of the namespace of Optimus who is bound to it lacks nothing else."""
    granted_rights = {
        (each.verb, each.group, each.resource)
        for each in granted("rbac-doctor.yaml", "optimus-doctor")
    }
    in_system = {("get", "apps", "deployments"), ("get", "", "configmaps")}
    lacking = answer_of(found(as_viewer())).value["lacking"]  # type: ignore[index]
    texts = {str(Right(*each)) for each in granted_rights | in_system}
    assert {each.partition(" in namespace")[0] for each in lacking} <= texts
