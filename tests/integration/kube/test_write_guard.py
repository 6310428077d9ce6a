"""A write is refused at the last moment before it is sent, over real HTTP."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from localcluster.kubeconfig import write_kubeconfig
from optimus.kube.client import Client, connect
from optimus.kube.errors import ErrorKind
from optimus.kube.leases import LeaseStore
from optimus.kube.results import Refused
from optimus.kube.writer import JobWriter
from tests.cases import cases
from tests.integration.kube.conftest import USER
from tests.integration.kube.recorder import job

pytestmark = pytest.mark.integration


class Answers:
    """What the guard answers, question by question: the last one again and again."""

    def __init__(self, *answers: str | None) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self) -> str | None:
        self.asked += 1
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def seen(httpserver: HTTPServer) -> list[Request]:
    requests: list[Request] = []

    def answer(request: Request) -> Response:
        request.get_data()  # one that is cut off does not get further
        requests.append(request)
        stored = '{"metadata": {"name": "l", "resourceVersion": "8"}}'
        return Response(stored, content_type="application/json")

    httpserver.expect_request(re.compile(".*")).respond_with_handler(answer)
    return requests


@pytest.fixture
def guard() -> Answers:
    return Answers(None)


@pytest.fixture
def guarded(
    httpserver: HTTPServer, tmp_path: Path, token_file: Path, guard: Answers
) -> Iterator[Client]:
    kubeconfig = tmp_path / "kubeconfig"
    write_kubeconfig(kubeconfig, httpserver.url_for("").rstrip("/"), "", USER)
    client = connect(kubeconfig, user_agent="test/1", guard=guard)
    yield client
    client.close()


def test_a_write_is_sent_while_the_guard_allows_it(
    guarded: Client, guard: Answers, seen: list[Request]
) -> None:
    assert not isinstance(JobWriter(guarded, "one").suspend(job(), "i1"), Refused)
    assert guard.asked >= 2, "before the head and before the body"
    assert len(seen) == 1


@cases(
    "answers",
    {
        "before anything is sent": ("it ran out",),
        "when the head is on its way and the body is not": (None, "it ran out"),
    },
)
def test_a_write_is_not_sent_once_the_guard_refuses(
    guarded: Client, guard: Answers, seen: list[Request], answers: tuple[str | None, ...]
) -> None:
    guard.answers = list(answers)
    outcome = JobWriter(guarded, "one").suspend(job(), "i1")
    assert isinstance(outcome, Refused)
    assert outcome.kind is ErrorKind.NOT_LEADING
    assert outcome.sentence == "did not suspend TFJob ns/j: it ran out"
    assert seen == []


def test_reads_are_not_asked_about_also_after_a_refused_write(
    guarded: Client, guard: Answers, seen: list[Request]
) -> None:
    guard.answers = ["it ran out"]
    JobWriter(guarded, "one").suspend(job(), "i1")
    asked = guard.asked
    assert guarded.get("read", "/api/v1/nodes")
    assert not isinstance(LeaseStore(guarded, "ns/l").read(), Refused)
    assert guard.asked == asked
    assert [request.method for request in seen] == ["GET", "GET"]
