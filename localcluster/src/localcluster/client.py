"""The official Kubernetes client for a local cluster: time-outs on every call, no proxy."""

from pathlib import Path
from typing import Any

from kubernetes import client, config

DEFAULT_TIMEOUT_SECONDS = (5.0, 30.0)


class TimedApiClient(client.ApiClient):
    """An ApiClient whose calls time out after `DEFAULT_TIMEOUT_SECONDS` unless they say else."""

    def call_api(self, *args: Any, **named: Any) -> Any:
        """Make the request as the parent class does, with the time-out filled in."""
        if len(args) < _TIMEOUT_POSITION and named.get("_request_timeout") is None:
            named["_request_timeout"] = DEFAULT_TIMEOUT_SECONDS
        return super().call_api(*args, **named)


_TIMEOUT_POSITION = 6


def api_client(kubeconfig: Path) -> TimedApiClient:
    """Return a client for a kubeconfig; it shares no global configuration."""
    configuration = client.Configuration()
    load: Any = config.load_kube_config  # untyped in the package
    load(str(kubeconfig), client_configuration=configuration, persist_config=False)
    configuration.proxy = None  # the server is on loopback, whatever proxies the environment names
    configuration.keep_alive = True
    return TimedApiClient(configuration)
