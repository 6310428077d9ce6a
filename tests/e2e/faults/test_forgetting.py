"""What `Compact` does to the real control plane: etcd and the API server's cache of watches both
forget."""

from pathlib import Path

import pytest

from localcluster.faults.cluster import before
from localcluster.faults.faults import Calls, Compact, Fault
from localcluster.node.api import Api, ApiError, read_kubeconfig
from tests.integration.faults.acting import Stage

NAMESPACES = "/api/v1/namespaces"


def test_what_was_is_known_to_nobody_any_more(stage: Stage, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    with before(stage.optimus.cluster) as proxy:
        proxy.write_kubeconfig(path)
        api = Api(read_kubeconfig(path))
        version = api.get(NAMESPACES)["metadata"]["resourceVersion"]
        as_it_was = f"{NAMESPACES}?resourceVersion={version}&resourceVersionMatch=Exact"
        api.create(NAMESPACES, {"metadata": {"name": "later"}})
        assert "later" not in {each["metadata"]["name"] for each in api.get(as_it_was)["items"]}
        proxy.inject(Fault(Calls("GET", r"/namespaces\?.*watch=true"), Compact(0.0)))
        (event,) = api.watch(NAMESPACES, version, 5)
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
        with pytest.raises(ApiError) as refused:
            api.get(as_it_was)
        assert refused.value.status == 410
        api.delete(f"{NAMESPACES}/later", {})
