"""Roles: the environments that the operator sets, and what is said about others."""

import json

import pytest

from examples.light.cluster import Address, BadEnvironment, Task, read_task
from tests.cases import cases

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


@cases(
    ("environment", "task"),
    {
        "a PS of a TFJob": (
            _tf("ps", 1, ps=_PS, worker=_WORKERS),
            Task("ps", 1, 2, 3, _PS_ADDRESSES),
        ),
        "a worker of a TFJob is the trainer of its index": (
            _tf("worker", 2, ps=_PS, worker=_WORKERS),
            Task("trainer", 2, 2, 3, _PS_ADDRESSES),
        ),
        "beside a chief a worker is one trainer further": (
            _tf("worker", 2, ps=_PS, worker=_WORKERS, chief=["j-chief-0.ns.svc:2222"]),
            Task("trainer", 3, 2, 4, _PS_ADDRESSES),
        ),
        "the chief is trainer 0": (
            _tf("chief", 0, ps=_PS, worker=_WORKERS, chief=["j-chief-0.ns.svc:2222"]),
            Task("trainer", 0, 2, 4, _PS_ADDRESSES),
        ),
        "the scheduler of an MXJob": (
            {**_DMLC, "DMLC_ROLE": "scheduler"},
            Task("scheduler", None, 2, 3, scheduler=_ROOT),
        ),
        "a server of an MXJob may have no index": (
            {**_DMLC, "DMLC_ROLE": "server"},
            Task("ps", None, 2, 3, scheduler=_ROOT),
        ),
        "MX_CONFIG gives a server its index": (
            {
                **_DMLC,
                "DMLC_ROLE": "server",
                "MX_CONFIG": _mx_config("server", 1),
                "DMLC_NODE_HOST": "127.0.0.1",
            },
            Task("ps", 1, 2, 3, scheduler=_ROOT, node_host="127.0.0.1"),
        ),
        "DMLC_WORKER_ID gives a worker its index": (
            {**_DMLC, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "2"},
            Task("trainer", 2, 2, 3, scheduler=_ROOT),
        ),
        "without DMLC_WORKER_ID MX_CONFIG does": (
            {**_DMLC, "DMLC_ROLE": "worker", "MX_CONFIG": _mx_config("worker", 0)},
            Task("trainer", 0, 2, 3, scheduler=_ROOT),
        ),
    },
)
def test_what_the_operator_sets_is_understood(environment: dict[str, str], task: Task) -> None:
    assert read_task(environment) == task


@cases(
    ("environment", "sentence"),
    {
        "nothing is set": ({}, "neither TF_CONFIG nor DMLC_ROLE"),
        "TF_CONFIG is cut": ({"TF_CONFIG": "{"}, "no JSON"),
        "TF_CONFIG is a list": ({"TF_CONFIG": "[]"}, "no JSON object"),
        "TF_CONFIG is empty": ({"TF_CONFIG": "{}"}, "does not list a cluster"),
        "there is no PS": (_tf("worker", 0, worker=_WORKERS), "0 PSs and 3 workers"),
        "there is no worker": (_tf("ps", 0, ps=_PS), "2 PSs and 0 workers"),
        "an evaluator has no part": (_tf("evaluator", 0, ps=_PS, worker=_WORKERS), "'evaluator'"),
        "the index is too high": (_tf("worker", 3, ps=_PS, worker=_WORKERS), "index 3 among 3"),
        "an address has no port": (
            _tf("worker", 0, ps=["no port"], worker=_WORKERS),
            "does not list",
        ),
        "MXTune has no part": ({"DMLC_ROLE": "tuner"}, "'tuner'"),
        "the scheduler is not named": ({"DMLC_ROLE": "worker"}, "DMLC_PS_ROOT_URI is missing"),
        "a worker needs its index": ({**_DMLC, "DMLC_ROLE": "worker"}, "index among 3 is None"),
        "the index is no number": (
            {**_DMLC, "DMLC_ROLE": "worker", "DMLC_WORKER_ID": "x"},
            "no number",
        ),
        "there is no server": (
            {**_DMLC, "DMLC_ROLE": "scheduler", "DMLC_NUM_SERVER": "0"},
            "0 servers",
        ),
    },
)
def test_what_is_missing_is_said(environment: dict[str, str], sentence: str) -> None:
    with pytest.raises(BadEnvironment, match=sentence):
        read_task(environment)
