"""What `Compact` does to the real control plane: etcd and the API server's cache of watches both
forget."""

import json
from pathlib import Path

import pytest

from localcluster.api_calls import ApiCalls
from localcluster.faults.cluster import proxy_for
from localcluster.faults.faults import Calls, Compact, Fault
from optimus.kube.client import connect
from optimus.kube.errors import ErrorKind, KubeError
from tests.harness.faults.fault_scenario import FaultScenario

NAMESPACES = "/api/v1/namespaces"


def test_compaction_drops_history_and_the_watch_cache(
    scenario: FaultScenario, tmp_path: Path
) -> None:
    path = tmp_path / "kubeconfig"
    with proxy_for(scenario.optimus.cluster) as proxy:
        proxy.write_kubeconfig(path)
        # The API server restarts for this, which takes a busy machine longer than usual calls.
        client = connect(path, user_agent="test", read_seconds=60)
        api = ApiCalls(client)
        version = api.get(NAMESPACES)["metadata"]["resourceVersion"]
        as_it_was = f"{NAMESPACES}?resourceVersion={version}&resourceVersionMatch=Exact"
        api.create(NAMESPACES, {"metadata": {"name": "later"}})
        assert "later" not in {each["metadata"]["name"] for each in api.get(as_it_was)["items"]}
        proxy.inject(Fault(Calls("GET", r"/namespaces\?.*watch=true"), Compact(0.0)))
        watch = [("watch", "true"), ("resourceVersion", version), ("timeoutSeconds", "5")]
        event = json.loads(client.get("watch", NAMESPACES, watch))
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        with pytest.raises(KubeError) as refused:
            api.get(as_it_was)
        assert refused.value.kind is ErrorKind.EXPIRED
        api.delete(f"{NAMESPACES}/later", {})
