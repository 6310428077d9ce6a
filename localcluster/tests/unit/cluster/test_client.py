"""Every call of the client for a local cluster ends, and none leaves the machine."""

from typing import Any

import pytest
from kubernetes.client import Configuration

from localcluster.client import DEFAULT_TIMEOUT_SECONDS, TimedApiClient, api_client
from localcluster.identities import write_identities
from localcluster.paths import ClusterPaths
from tests.cases import cases


class Recorder:
    """Stands in for the transport and notes the time-out that it is given."""

    def __init__(self) -> None:
        self.timeouts: list[Any] = []

    def request(self, method: str, url: str, **named: Any) -> None:
        self.timeouts.append(named["_request_timeout"])


@cases(
    ("given", "used"),
    {
        "a call that names none gets the default": ({}, DEFAULT_TIMEOUT_SECONDS),
        "none is no time-out": ({"_request_timeout": None}, DEFAULT_TIMEOUT_SECONDS),
        "its own is kept": ({"_request_timeout": 3}, 3),
    },
)
def test_every_call_has_a_timeout(given: dict[str, Any], used: object) -> None:
    client: Any = TimedApiClient(Configuration())
    client.rest_client = recorder = Recorder()
    client.call_api("GET", "https://127.0.0.1/version", **given)
    assert recorder.timeouts == [used]


def test_a_proxy_of_the_environment_is_not_used(
    paths_with_identities: ClusterPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:3128")
    client = api_client(paths_with_identities.kubeconfig)
    assert client.configuration.host == "https://127.0.0.1:20003"
    assert client.configuration.proxy is None


@pytest.fixture
def paths_with_identities(tmp_path_factory: pytest.TempPathFactory) -> ClusterPaths:
    paths = ClusterPaths(tmp_path_factory.mktemp("state"))
    write_identities(paths, 20003)
    return paths
