"""What is sent for each write to jobs and pods, and what becomes of each answer."""

from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from optimus.jobs import Counts
from optimus.kube.client import Client
from optimus.kube.errors import ErrorKind
from optimus.kube.results import Refused, Written
from optimus.kube.writer import JobWriter, PodWriter
from tests.integration.kube.recorder import JOB_PATH, Recorder, job, pod, refusal, stored

pytestmark = pytest.mark.integration


def test_suspending_is_one_guarded_patch_that_says_whose_doing_it_is(
    httpserver: HTTPServer, client: Client
) -> None:
    server = Recorder(httpserver, JOB_PATH, [stored()])
    assert JobWriter(client).suspend(job(), "i-9") == Written("8")
    assert server.requests[0].method == "PATCH"
    assert server.requests[0].headers["Content-Type"] == "application/merge-patch+json"
    assert server.requests[0].headers["User-Agent"] == "test/1"
    assert server.body() == {
        "metadata": {"resourceVersion": "7", "annotations": {"optimus.dl/suspended-by": "i-9"}},
        "spec": {"runPolicy": {"suspend": True}},
    }


def test_what_is_left_of_limits_is_written_where_each_stands(
    httpserver: HTTPServer, client: Client
) -> None:
    server = Recorder(httpserver, JOB_PATH, [stored()])
    left = {"backoffLimit": 3, "maxRestarts": 7}
    assert JobWriter(client).suspend(job(), "i-9", left) == Written("8")
    assert server.body() == {
        "metadata": {"resourceVersion": "7", "annotations": {"optimus.dl/suspended-by": "i-9"}},
        "spec": {
            "runPolicy": {"suspend": True, "backoffLimit": 3},
            "elasticPolicy": {"maxRestarts": 7},
        },
    }


def test_resuming_writes_the_counts_under_the_keys_that_are_stored(
    httpserver: HTTPServer, client: Client
) -> None:
    server = Recorder(httpserver, JOB_PATH, [stored()])
    assert JobWriter(client).resize_and_resume(job(), Counts(2, 5)) == Written("8")
    assert server.body() == {
        "metadata": {"resourceVersion": "7", "annotations": {"optimus.dl/suspended-by": None}},
        "spec": {
            "runPolicy": {"suspend": False},
            "tfReplicaSpecs": {"Ps": {"replicas": 2}, "worker": {"replicas": 5}},
        },
    }


def test_a_mark_can_be_taken_away_alone(httpserver: HTTPServer, client: Client) -> None:
    server = Recorder(httpserver, JOB_PATH, [stored()])
    assert JobWriter(client).unmark(job()) == Written("8")
    assert server.body() == {
        "metadata": {"resourceVersion": "7", "annotations": {"optimus.dl/suspended-by": None}}
    }


def test_a_throttled_write_is_not_tried_again_behind_the_callers_back(
    httpserver: HTTPServer, client: Client
) -> None:
    answer = refusal(429)
    answer.headers["Retry-After"] = "7"
    server = Recorder(httpserver, JOB_PATH, [answer])
    outcome = JobWriter(client).suspend(job(), "i-9")
    assert isinstance(outcome, Refused)
    assert outcome.kind is ErrorKind.THROTTLED
    assert len(server.requests) == 1


@pytest.mark.parametrize("connection", ["cut_off", "frozen"])
def test_a_write_without_an_answer_may_have_happened(
    request: pytest.FixtureRequest, connection: str
) -> None:
    client: Client = request.getfixturevalue(connection)
    outcome = JobWriter(client).suspend(job(), "i-9")
    assert isinstance(outcome, Refused)
    assert outcome.kind is ErrorKind.TRANSIENT


def test_a_token_that_was_replaced_is_used(
    httpserver: HTTPServer, client: Client, token_file: Path
) -> None:
    server = Recorder(httpserver, JOB_PATH, [stored(), stored()])
    JobWriter(client).suspend(job(), "i")
    token_file.write_text("second, longer\n")
    JobWriter(client).suspend(job(), "i")
    assert [request.headers["Authorization"] for request in server.requests] == [
        "Bearer first",
        "Bearer second, longer",
    ]


def test_requeuing_changes_an_annotation_of_the_very_pod(
    httpserver: HTTPServer, client: Client
) -> None:
    server = Recorder(httpserver, "/api/v1/namespaces/ns/pods/j-ps-0/status", [stored()])
    assert PodWriter(client).requeue(pod(), "room at 5") == Written("8")
    assert server.body() == {
        "metadata": {"uid": "p1", "annotations": {"optimus.dl/requeued": "room at 5"}}
    }
