"""The components of the embedded back end: names, addresses and files."""

import json
import os
import sys
from pathlib import Path

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.components import Component
from localcluster.embedded import backend
from localcluster.errors import ClusterError, KubectlError
from localcluster.images import Environment, default_images
from localcluster.paths import SOURCES, ClusterPaths
from localcluster.specs import Backend


@pytest.fixture
def paths(tmp_path: Path) -> ClusterPaths:
    return ClusterPaths(tmp_path)


def components(paths: ClusterPaths, *agent: Component) -> dict[str, Component]:
    return {each.name: each for stage in backend.stages(paths, agent) for each in stage.components}


def test_every_identity_is_the_same_and_knows_the_server(paths: ClusterPaths) -> None:
    port = components(paths)["kube-apiserver"].command[4]
    config = yaml.safe_load(paths.kubeconfig.read_text())
    token = config["users"][0]["user"]["token"]
    assert config["clusters"][0]["cluster"] == {"server": f"http://admin:{token}@127.0.0.1:{port}"}
    assert len(token) > 40
    assert paths.kubeconfig.stat().st_mode & 0o077 == 0
    assert json.loads(paths.kubeconfig_of("training-operator").read_text()) == config


def test_what_the_embedded_back_end_lacks_is_refused_with_a_message(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = LocalCluster("x", backend=Backend.EMBEDDED)
    with pytest.raises(ClusterError, match="the embedded back end has no programs"):
        _ = cluster.binaries
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(KubectlError, match="there is no kubectl on PATH"):
        cluster.kubectl("get", "nodes")


def test_the_image_of_kube_scheduler_is_a_program_of_this_repository() -> None:
    found = default_images(None).lookup("registry.k8s.io/kube-scheduler:v1.36.3")
    assert isinstance(found, Environment)
    assert os.access(Path(found.path[0]) / "kube-scheduler", os.X_OK)
    assert (found.path[1], found.env["PYTHONPATH"]) == (f"{sys.prefix}/bin", SOURCES)


def test_the_kinds_of_the_operator_are_defined() -> None:
    for path, required in (
        ("tfjobs", ["tfReplicaSpecs"]),
        ("mxjobs", ["jobMode", "mxReplicaSpecs"]),
    ):
        definition = yaml.safe_load(
            (Path(backend.__file__).parent / "kinds" / f"{path}.yaml").read_text()
        )
        assert definition["metadata"]["name"] == f"{path}.kubeflow.org"
        version = definition["spec"]["versions"][0]
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
        assert (spec["required"], version["subresources"]) == (required, {"status": {}})
        assert spec["properties"]["runPolicy"]["properties"]["suspend"] == {
            "type": "boolean",
            "default": False,
        }
