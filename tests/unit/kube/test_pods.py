"""Pods: what they take, which replica they are, and that no JSON can do worse than be refused."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import NodeConstraints, Requirement, Role, Toleration
from optimus.kube.errors import Malformed
from optimus.kube.pods import ContainerState, Pod, decode_pod
from optimus.resources import Resources
from optimus.snapshot import BoundPod, ReplicaId
from tests.cases import cases

OWNER = {
    "apiVersion": "kubeflow.org/v1",
    "kind": "TFJob",
    "name": "j",
    "uid": "u",
    "controller": True,
}
LABELS = {"training.kubeflow.org/replica-type": "ps", "training.kubeflow.org/replica-index": "3"}


def container(cpu: str | None = None, **extra: object) -> dict[str, object]:
    requests = {"cpu": cpu} if cpu else {}
    return {"name": "tensorflow", "resources": {"requests": requests}, **extra}


def decoded(
    spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **metadata: object
) -> Pod:
    raw = {
        "metadata": {"name": "p", "namespace": "ns", "uid": "pu", **metadata},
        "spec": spec or {"containers": [container()]},
        "status": status,
    }
    return decode_pod(json.dumps(raw).encode())


@cases(
    ("spec", "millicores"),
    {
        "containers add up": ({"containers": [container("1"), container("500m")]}, 1500),
        "the largest init container counts where it is more than the containers": (
            {"containers": [container("1")], "initContainers": [container("3"), container("2")]},
            3000,
        ),
        "a sidecar adds to the containers": (
            {
                "containers": [container("1")],
                "initContainers": [container("500m", restartPolicy="Always")],
            },
            1500,
        ),
        "an init container runs beside the sidecars before it": (
            {
                "containers": [container("1")],
                "initContainers": [container("500m", restartPolicy="Always"), container("2")],
            },
            2500,
        ),
        "an init container does not run beside the sidecars after it": (
            {
                "containers": [container("1")],
                "initContainers": [container("2"), container("500m", restartPolicy="Always")],
            },
            2000,
        ),
        "a runtime's overhead adds": (
            {"containers": [container("1")], "overhead": {"cpu": "250m"}},
            1250,
        ),
        "what the pod as a whole requests replaces the sum": (
            {"containers": [container("1")], "resources": {"requests": {"cpu": "4"}}},
            4000,
        ),
        "a limit without a request is the request": (
            {"containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}}}]},
            2000,
        ),
        "nothing requested": ({"containers": [{"name": "c"}]}, 0),
        "null lists": ({"containers": None, "initContainers": None}, 0),
    },
)
def test_requests_are_reckoned_as_kube_scheduler_does(
    spec: dict[str, Any], millicores: int
) -> None:
    assert decoded(spec).resources == Resources(cpu=millicores, pods=1)


@cases(
    ("owner", "labels", "replica"),
    {
        "a PS of a TFJob": (OWNER, LABELS, ReplicaId("u", Role.PS, 3)),
        "MXNet's server is a PS": (
            OWNER | {"kind": "MXJob"},
            LABELS | {"training.kubeflow.org/replica-type": "server"},
            ReplicaId("u", Role.PS, 3),
        ),
        "no labels": (OWNER, {}, None),
        "an index that is none": (
            OWNER,
            LABELS | {"training.kubeflow.org/replica-index": "-1"},
            None,
        ),
        "an index beyond any job": (
            OWNER,
            LABELS | {"training.kubeflow.org/replica-index": "10000"},
            None,
        ),
        "a role unknown": (OWNER, LABELS | {"training.kubeflow.org/replica-type": "tuner"}, None),
        "an owner that does not control": (OWNER | {"controller": False}, LABELS, None),
        "another group's kind": (OWNER | {"apiVersion": "batch/v1"}, LABELS, None),
        "a kind that is not placed": (OWNER | {"kind": "XGBoostJob"}, LABELS, None),
    },
)
def test_owner_and_labels_tell_the_replica(
    owner: dict[str, Any], labels: dict[str, str], replica: ReplicaId | None
) -> None:
    assert decoded(ownerReferences=[owner], labels=labels).replica == replica


TF = {
    "cluster": {"ps": ["a:1", "b:1"], "worker": ["c:1"], "chief": ["d:1"]},
    "task": {"type": "ps", "index": 0},
}
MX = {
    "cluster": {"scheduler": [{"url": "s", "port": 9091}], "server": [{}, {}], "worker": [{}]},
    "labels": {},
}


@cases(
    ("name", "value", "gang"),
    {
        "TFJob": ("TF_CONFIG", json.dumps(TF), {Role.PS: 2, Role.WORKER: 1, Role.CHIEF: 1}),
        "MXJob": ("MX_CONFIG", json.dumps(MX), {Role.SCHEDULER: 1, Role.PS: 2, Role.WORKER: 1}),
        "a dynamic worker sees no whole gang": (
            "TF_CONFIG",
            '{"cluster":{"worker":{"1":"a"}}}',
            None,
        ),
        "an empty cluster": ("TF_CONFIG", '{"cluster":{}}', None),
        "a role unknown": ("TF_CONFIG", '{"cluster":{"tuner":["a"]}}', None),
        "more than anybody has": ("TF_CONFIG", json.dumps({"cluster": {"ps": [1] * 10_001}}), None),
        "no JSON": ("TF_CONFIG", "garbage", None),
        "JSON too deep": ("TF_CONFIG", "[" * 100_000, None),
        "PyTorchJob without a Master": ("PET_NNODES", "4", {Role.WORKER: 4}),
        "an elastic PyTorchJob": ("PET_NNODES", "1:4", None),
        "more pods than anybody has": ("PET_NNODES", "10001", None),
        "no number of pods": ("PET_NNODES", "²", None),
        "none": ("OTHER", json.dumps(TF), None),
    },
)
def test_the_gang_is_read_from_the_pods_own_configuration(
    name: str, value: str, gang: dict[Role, int] | None
) -> None:
    spec = {"containers": [{"name": "side"}, container(env=[{"name": name, "value": value}])]}
    assert decoded(spec, ownerReferences=[OWNER]).gang == gang


@pytest.mark.parametrize(
    ("nodes", "gang"),
    [
        ("4", {Role.MASTER: 1, Role.WORKER: 3}),
        ("1", {Role.MASTER: 1}),
        ("0", None),
    ],
)
def test_a_master_is_one_of_the_pods_of_a_pytorch_job(
    nodes: str, gang: dict[Role, int] | None
) -> None:
    variables = [{"name": "RANK", "value": "0"}, {"name": "PET_NNODES", "value": nodes}]
    owner = {**OWNER, "kind": "PyTorchJob"}
    labels = {
        "training.kubeflow.org/replica-type": "master",
        "training.kubeflow.org/replica-index": "0",
    }
    spec = {"containers": [container(env=variables)]}
    pod = decoded(spec, ownerReferences=[owner], labels=labels)
    assert pod.gang == gang
    assert pod.replica is not None
    assert pod.replica.role is Role.MASTER


def test_the_gang_is_what_the_operator_appended_last_to_its_own_container() -> None:
    alone = {"name": "TF_CONFIG", "value": '{"cluster":{"worker":["a:1"]}}'}
    spec = {
        "containers": [
            {"name": "side", "env": [alone]},
            container(env=[alone, {"name": "TF_CONFIG", "value": json.dumps(TF)}]),
        ]
    }
    assert decoded(spec, ownerReferences=[OWNER]).gang == {
        Role.PS: 2,
        Role.WORKER: 1,
        Role.CHIEF: 1,
    }


def test_constraints_are_kept() -> None:
    expression = {"key": "zone", "operator": "In", "values": ["a"]}
    term = {
        "matchExpressions": [expression],
        "matchFields": [{"key": "metadata.name", "operator": "Exists"}],
    }
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = {
        "containers": [container()],
        "nodeSelector": {"gpu": "yes"},
        "affinity": {"nodeAffinity": required},
        "tolerations": [{"key": "t", "operator": "Exists"}, {}],
    }
    assert decoded(spec).constraints == NodeConstraints(
        selector=(("gpu", "yes"),),
        affinity=(
            (
                Requirement("zone", "In", ("a",)),
                Requirement("metadata.name", "Exists", (), field=True),
            ),
        ),
        tolerations=(Toleration("t", "Exists"), Toleration()),
    )


def test_a_bound_pod_takes_room_until_it_has_ended() -> None:
    spec = {"containers": [container("1")], "nodeName": "n1"}
    resources = Resources(cpu=1000, pods=1)
    assert decoded(spec).bound() == BoundPod("pu", "n1", resources)
    leaving = decoded(spec, {"phase": "Running"}, deletionTimestamp="2026-01-01T00:00:00Z")
    assert leaving.bound() == BoundPod("pu", "n1", resources, leaving=True)
    assert not leaving.running
    assert decoded(spec, {"phase": "Succeeded"}).bound() is None
    assert decoded({"containers": [container("1")]}).bound() is None


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["istio", "mxnet"], "mxnet"),
        (["a", "b"], "a"),
        (["x", "tensorflow", "mxnet"], "tensorflow"),
    ],
)
def test_the_training_containers_log_is_the_one_to_read(names: list[str], expected: str) -> None:
    assert decoded({"containers": [{"name": name} for name in names]}).log_container == expected


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=10,
)
some_pod = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": st.text(), "uid": st.text()}, optional={"labels": json_values}
        )
    },
    optional={
        "spec": st.fixed_dictionaries(
            {},
            optional={
                "containers": json_values
                | st.lists(st.fixed_dictionaries({"resources": json_values})),
                "tolerations": json_values,
                "affinity": json_values,
                "overhead": st.dictionaries(st.text(), json_values, max_size=2),
            },
        ),
        "status": json_values,
    },
)


@given(json_values | some_pod)
def test_any_json_is_a_pod_or_refused(value: object) -> None:
    with suppress(Malformed):
        assert isinstance(decode_pod(json.dumps(value).encode()), Pod)


STARTED = "2026-01-01T00:00:10Z"
OOM = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": STARTED}}
RUNS = {"running": {"startedAt": STARTED}}


@cases(
    ("state", "restarts", "last", "expected"),
    {
        "runs": (RUNS, 0, {}, ContainerState(1767225610.0)),
        "restarted: as old as its pod": (
            RUNS,
            2,
            OOM,
            ContainerState(1767225601.0, 2, "exit code 137 (OOMKilled)", restarted_at=1767225610.0),
        ),
        "waits to be started again": (
            {"waiting": {"reason": "CrashLoopBackOff"}},
            3,
            {"terminated": {"exitCode": 1, "reason": "Error"}},
            ContainerState(None, 3, "exit code 1", stopped="CrashLoopBackOff"),
        ),
        "not yet": ({"waiting": {"reason": "ContainerCreating"}}, 0, {}, ContainerState()),
        "done": ({"terminated": {"exitCode": 0, "reason": "Completed"}}, 0, {}, ContainerState()),
    },
)
def test_the_container_that_trains(
    state: dict[str, Any], restarts: int, last: dict[str, Any], expected: ContainerState
) -> None:
    other = {"name": "sidecar", "restartCount": 9, "state": RUNS}
    own = {"name": "tensorflow", "restartCount": restarts, "state": state, "lastState": last}
    status = {"startTime": "2026-01-01T00:00:01Z", "containerStatuses": [other, own]}
    pod = decoded(status=status, ownerReferences=[OWNER], labels=LABELS)
    assert pod.container == expected


@cases(
    ("spec", "conditions", "refused"),
    {
        "no scheduler has tried it": ({}, None, False),
        "no node was found": (
            {},
            [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            True,
        ),
        "it is gated": (
            {},
            [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            False,
        ),
        "it is bound": (
            {"nodeName": "n"},
            [{"type": "Ready", "status": "False", "reason": "Unschedulable"}],
            False,
        ),
    },
)
def test_a_refused_pod(
    spec: dict[str, Any], conditions: list[dict[str, str]] | None, refused: bool
) -> None:
    pod = decoded({"containers": [container()], **spec}, {"conditions": conditions})
    assert pod.refused is refused


MANY = 20_000


def named(number: int) -> dict[str, Any]:
    return {"topologyKey": f"k{number}", "labelSelector": {"matchLabels": {"a": f"{number}"}}}


@pytest.mark.parametrize(
    ("spec", "metadata"),
    [
        pytest.param({}, {"labels": {f"k{n}": "v" for n in range(MANY)} | LABELS}, id="labels"),
        pytest.param({"nodeSelector": {f"k{n}": "v" for n in range(MANY)}}, {}, id="a selector"),
        pytest.param(
            {"tolerations": [{"key": f"k{n}", "operator": "Exists"} for n in range(MANY)]},
            {},
            id="tolerations",
        ),
        pytest.param(
            {
                "affinity": {
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            named(number) for number in range(MANY)
                        ]
                    }
                }
            },
            {},
            id="anti-affinity",
        ),
        pytest.param(
            {
                "topologySpreadConstraints": [
                    {**named(number), "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
                    for number in range(MANY)
                ]
            },
            {},
            id="spreads",
        ),
        pytest.param(
            {
                "containers": [
                    {"name": "c", "resources": {"requests": {f"a.b/{n}": "1" for n in range(MANY)}}}
                ]
            },
            {},
            id="resources",
        ),
    ],
)
def test_what_is_kept_of_a_pod_is_bounded_whatever_its_user_writes(
    spec: dict[str, Any], metadata: dict[str, Any]
) -> None:
    pod = decoded({"containers": [container("1")], **spec}, ownerReferences=[OWNER], **metadata)
    assert len(repr(pod)) < 100_000
    if metadata:
        assert pod.replica == ReplicaId("u", Role.PS, 3)


def node_affinity(*requirements: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": [{"matchExpressions": [*requirements]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def many_kinds(first: int, count: int) -> dict[str, Any]:
    amounts = {f"a.b/{number}": "1" for number in range(first, first + count)}
    return {"name": f"c{first}", "resources": {"requests": amounts, "limits": amounts}}


@cases(
    ("spec", "labels", "is_cut"),
    {
        "as many labels as are read": ({}, 128, False),
        "more labels": ({}, 129, True),
        "as many selectors as are read": (
            {"nodeSelector": {str(n): "" for n in range(128)}},
            0,
            False,
        ),
        "more selectors": ({"nodeSelector": {str(n): "" for n in range(129)}}, 0, True),
        "more requirements on a node": (
            {"affinity": node_affinity(*[{"key": "k", "operator": "Exists"}] * 129)},
            0,
            True,
        ),
        "more values": (
            {"affinity": node_affinity({"key": "k", "operator": "NotIn", "values": ["v"] * 8192})},
            0,
            True,
        ),
        "as many containers as are counted": ({"containers": [container("1")] * 1024}, 0, False),
        "more containers": ({"containers": [container("1")] * 1025}, 0, True),
        "as many kinds of resources as are read": (
            {"containers": [many_kinds(0, 128), many_kinds(0, 128)]},
            0,
            False,
        ),
        "more kinds of resources": (
            {"containers": [many_kinds(0, 100), many_kinds(100, 100)]},
            0,
            True,
        ),
    },
)
def test_a_pod_of_which_not_everything_is_read_is_left_to_kube_scheduler(
    spec: dict[str, Any], labels: int, is_cut: bool
) -> None:
    found = {f"l{number:03}": "" for number in range(labels)}
    pod = decoded({"containers": [container("1")], **spec}, labels=found)
    assert pod.beyond_plan == is_cut


def test_resources_of_which_nothing_is_requested_displace_no_others() -> None:
    nothing = {f"a.b/{number}": ("0", "0k", "0e2")[number % 3] for number in range(200)}
    amounts = {"requests": {**nothing, "nvidia.com/gpu": "8", "x.y/z": "0.5"}}
    pod = decoded({"containers": [{"name": "c", "resources": amounts}]})
    assert (pod.resources["nvidia.com/gpu"], pod.resources["x.y/z"]) == (8, 1)
