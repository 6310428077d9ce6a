"""Reads that come from no copy: jobs, their pods, logs."""

import json

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Response

from optimus.jobs import JobKey
from optimus.kube.client import Client
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.errors import ErrorKind
from optimus.kube.live_reader import LiveReader
from optimus.kube.logs import LogReader
from optimus.kube.results import Refused
from optimus.progress.types import LogLine
from tests.integration.kube.recorder import JOB, JOB_PATH, POD, Recorder, job, pod, refusal

pytestmark = pytest.mark.integration


def test_the_pods_of_a_job_are_those_that_it_controls(
    httpserver: HTTPServer, client: Client
) -> None:
    owner = {"apiVersion": "kubeflow.org/v1", "kind": "MXJob", "name": "j", "uid": "u2"}
    owners = [{**owner, "controller": True}]
    metadata = {"name": "k", "namespace": "ns", "uid": "p2", "ownerReferences": owners}
    other = {**POD, "metadata": metadata}
    lists = [
        Response(
            json.dumps({"metadata": {"resourceVersion": "5", "continue": "c"}, "items": [other]})
        ),
        Response(json.dumps({"metadata": {"resourceVersion": "5"}, "items": [POD]})),
    ]
    server = Recorder(httpserver, "/api/v1/namespaces/ns/pods", lists)
    assert LiveReader(client, EligibilityConfig()).pods_of(job()) == (pod(),)
    assert server.requests[0].args["labelSelector"] == "training.kubeflow.org/job-name=j"
    assert "resourceVersion" not in server.requests[0].args
    assert server.requests[1].args["continue"] == "c"


def test_a_pod_that_cannot_be_read_is_not_taken_for_gone(
    httpserver: HTTPServer, client: Client
) -> None:
    lists = [
        Response(json.dumps({"metadata": {"resourceVersion": "5"}, "items": [{"metadata": {}}]}))
    ]
    Recorder(httpserver, "/api/v1/namespaces/ns/pods", lists)
    assert isinstance(LiveReader(client, EligibilityConfig()).pods_of(job()), Refused)


def test_a_job_is_read_as_it_is_now(httpserver: HTTPServer, client: Client) -> None:
    Recorder(httpserver, JOB_PATH, [Response(json.dumps(JOB)), refusal(404), Response("[]")])
    reader = LiveReader(client, EligibilityConfig())
    assert reader.job("TFJob", JobKey("ns", "j")) == job()
    gone, garbage = reader.job("TFJob", JobKey("ns", "j")), reader.job("TFJob", JobKey("ns", "j"))
    assert isinstance(gone, Refused)
    assert gone.kind is ErrorKind.NOT_FOUND
    assert isinstance(garbage, Refused)
    assert garbage.kind is ErrorKind.INVALID


def test_a_log_is_read_in_bounds_from_the_training_container(
    httpserver: HTTPServer, client: Client
) -> None:
    body = (
        b"2026-01-01T00:00:01.5Z loss=1\nunable to retrieve\n2026-01-01T00:00:02Z "
        b"\xff\n2026-01-01T00:00:03Z cu"
    )
    server = Recorder(httpserver, "/api/v1/namespaces/ns/pods/j-ps-0/log", [Response(body)])
    read = LogReader(client, 1000).read(pod(), since=1767225600.25)
    assert not isinstance(read, Refused)
    assert read.lines == [
        LogLine(1767225601.5, "loss=1"),
        LogLine(1767225602.0, "\N{REPLACEMENT CHARACTER}"),
    ]
    assert dict(server.requests[0].args) == {
        "container": "tensorflow",
        "timestamps": "true",
        "limitBytes": "1000",
        "sinceTime": "2026-01-01T00:00:00.250000Z",
        "tailLines": "5000",
    }
