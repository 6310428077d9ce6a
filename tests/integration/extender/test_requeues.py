"""What an API server that throttles is sent, over real HTTP."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from extender.requeues import Requeue, Requeues
from optimus.jobs import NodeConstraints
from optimus.kube.client import connect
from optimus.kube.pods import Pod
from optimus.kube.writer import PodWriter
from optimus.resources import NONE

pytestmark = pytest.mark.integration

THREADS = 8


def pod(index: int) -> Pod:
    return Pod(
        uid=f"u{index}",
        namespace="ns",
        name=f"p{index}",
        created_at=0.0,
        resources=NONE,
        constraints=NodeConstraints(),
    )


def test_a_429_with_retry_after_stops_the_writes_to_all_pods(
    httpserver: HTTPServer, kubeconfig: Path
) -> None:
    patched: list[str] = []

    def answer(request: Request) -> Response:
        patched.append(request.path)
        return Response("{}", status=429, headers={"Retry-After": "30"})

    status = re.compile("/api/v1/namespaces/ns/pods/.*/status")
    httpserver.expect_request(status, method="PATCH").respond_with_handler(answer)
    counted: list[str] = []
    writes = [Requeue(pod(index), "n") for index in range(300)]
    with ThreadPoolExecutor(THREADS) as executor:
        limited = Requeues(
            PodWriter(connect(kubeconfig, user_agent="test")).requeue,
            count_write=counted.append,
            executor=executor,
        )
        outcomes = limited.write_all(writes, 0.0)
    assert 1 <= len(patched) <= THREADS, "those that were on their way"
    assert counted == ["throttled"] * len(patched)
    assert sum(outcome is not None for outcome in outcomes) == len(patched)
    assert not any(limited.is_due(write, 29.9) for write in writes)
    assert all(limited.is_due(write, 31.0) for write in writes)
