"""Roles: the environments that the operator sets, and what is said about others."""

import json

import pytest

from examples.light.cluster import Address, BadEnvironment, Task, read_task

_PS = ["j-ps-0.ns.svc:2222", "j-ps-1.ns.svc:2222"]
_PS_ADDRESSES = (Address("j-ps-0.ns.svc", 2222), Address("j-ps-1.ns.svc", 2222))
_WORKERS = ["j-worker-0.ns.svc:2222", "j-worker-1.ns.svc:2222", "j-worker-2.ns.svc:2222"]


def _tf(kind: str, index: int, **cluster: object) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})}


_DMLC = {
    "DMLC_PS_ROOT_URI": "j-scheduler-0",
    "DMLC_PS_ROOT_PORT": "9091",
    "DMLC_NUM_SERVER": "2",
    "DMLC_NUM_WORKER": "3",
}
_ROOT = Address("j-scheduler-0", 9091)


def _mx_config(kind: str, index: int) -> str:
    return json.dumps({"cluster": {}, "task": {"type": kind, "index": index}})


@pytest.mark.parametrize(
    ("environment", "task"),
    [
        pytest.param(
            _tf("ps", 1, ps=_PS, worker=_WORKERS),
            Task("ps", 1, 2, 3, _PS_ADDRESSES),
            id="a PS of a TFJob",
        ),
        pytest.param(
            _tf("worker", 2, ps=_PS, worker=_WORKERS),
            Task("trainer", 2, 2, 3, _PS_ADDRESSES),
            id="a worker of a TFJob is the trainer of its index",
        ),
        pytest.param(
            _tf("worker", 2, ps=_PS, worker=_WORKERS, chief=["j-chief-0.ns.svc:2222"]),
            Task("trainer", 3, 2, 4, _PS_ADDRESSES),
            id="beside a chief a worker is one trainer further",
        ),
        pytest.param(
            _tf("chief", 0, ps=_PS, worker=_WORKERS, chief=["j-chief-0.ns.svc:2222"]),
            Task("trainer", 0, 2, 4, _PS_ADDRESSES),
            id="the chief is trainer 0",
        ),
        pytest.param(
            {**_DMLC, "DMLC_ROLE": "scheduler"},
            Task("scheduler", None, 2, 3, scheduler=_ROOT),
            id="the scheduler of an MXJob",
        ),
        pytest.param(
            {**_DMLC, "DMLC_ROLE": "server"},
            Task("ps", None, 2, 3, scheduler=_ROOT),
            id="a server of an MXJob may have no index",
        ),
        pytest.param(
            {
                **_DMLC,
                "DMLC_ROLE": "server",
                "MX_CONFIG": _mx_config("server", 1),
                "DMLC_NODE_HOST": "127.0.0.1",
            },
            Task("ps", 1, 2, 3, scheduler=_ROOT, node_host="127.0.0.1"),
            id="MX_CONFIG gives a server its index",
        ),
        pytest.param(
            {**_DMLC, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "2"},
            Task("trainer", 2, 2, 3, scheduler=_ROOT),
            id="DMLC_WORKER_ID gives a worker its index",
        ),
        pytest.param(
            {**_DMLC, "DMLC_ROLE": "worker", "MX_CONFIG": _mx_config("worker", 0)},
            Task("trainer", 0, 2, 3, scheduler=_ROOT),
            id="without DMLC_WORKER_ID MX_CONFIG does",
        ),
    ],
)
def test_what_the_operator_sets_is_understood(environment: dict[str, str], task: Task) -> None:
    assert read_task(environment) == task


@pytest.mark.parametrize(
    ("environment", "sentence"),
    [
        pytest.param({}, "neither TF_CONFIG nor DMLC_ROLE", id="nothing is set"),
        pytest.param({"TF_CONFIG": "{"}, "no JSON", id="TF_CONFIG is cut"),
        pytest.param({"TF_CONFIG": "[]"}, "no JSON object", id="TF_CONFIG is a list"),
        pytest.param({"TF_CONFIG": "{}"}, "does not list a cluster", id="TF_CONFIG is empty"),
        pytest.param(_tf("worker", 0, worker=_WORKERS), "0 PSs and 3 workers", id="there is no PS"),
        pytest.param(_tf("ps", 0, ps=_PS), "2 PSs and 0 workers", id="there is no worker"),
        pytest.param(
            _tf("evaluator", 0, ps=_PS, worker=_WORKERS),
            "'evaluator'",
            id="an evaluator has no part",
        ),
        pytest.param(
            _tf("worker", 3, ps=_PS, worker=_WORKERS), "index 3 among 3", id="the index is too high"
        ),
        pytest.param(
            _tf("worker", 0, ps=["no port"], worker=_WORKERS),
            "does not list",
            id="an address has no port",
        ),
        pytest.param(
            _tf("worker", 1, ps=_PS, worker={"1": "h:1"}),
            "only a part",
            id="a sparse cluster hides the others",
        ),
        pytest.param({"DMLC_ROLE": "tuner"}, "'tuner'", id="MXTune has no part"),
        pytest.param(
            {"DMLC_ROLE": "worker"}, "DMLC_PS_ROOT_URI is missing", id="the scheduler is not named"
        ),
        pytest.param(
            {**_DMLC, "DMLC_ROLE": "worker"}, "index among 3 is None", id="a worker needs its index"
        ),
        pytest.param(
            {**_DMLC, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "x"},
            "no number",
            id="the index is no number",
        ),
        pytest.param(
            {**_DMLC, "DMLC_ROLE": "scheduler", "DMLC_NUM_SERVER": "0"},
            "0 servers",
            id="there is no server",
        ),
    ],
)
def test_what_is_missing_is_said(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadEnvironment, match=sentence):
        read_task(environment)
