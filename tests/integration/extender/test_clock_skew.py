"""Waiting times where the local clock is minutes off the API server's."""

import time
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from extender.application import clocks_of
from optimus.kube.client import connect
from optimus.kube.server_clock import ServerClock

pytestmark = pytest.mark.integration


@pytest.mark.parametrize("skew_seconds", [-900.0, 900.0])
def test_a_new_gang_has_not_waited_whatever_the_local_clock_says(
    httpserver: HTTPServer, kubeconfig: Path, skew_seconds: float
) -> None:
    httpserver.expect_request("/api/v1/pods").respond_with_json({})  # with the Date of a server
    client = connect(kubeconfig, user_agent="test")
    client.server_clock = ServerClock(now=lambda: time.time() + skew_seconds)
    assert abs(clocks_of(client)().epoch - time.time()) > 800.0, "nothing is known yet"
    client.get("list pods", "/api/v1/pods")
    assert abs(clocks_of(client)().epoch - time.time()) < 5.0
