"""Every optional part of the installation is accepted by the API server."""

import os
from pathlib import Path

import pytest
import yaml

from localcluster.cluster import LocalCluster
from tests.e2e.kube.conftest import MANIFESTS

COMPONENTS = sorted(
    path.parent.name
    for path in MANIFESTS.glob("*/kustomization.yaml")
    if yaml.safe_load(path.read_text())["kind"] == "Component"
)
NEEDS_OTHER_KINDS = ("monitoring",)
"""Of these the API server has no definition of every kind."""


@pytest.mark.parametrize(
    "components",
    [
        *((each,) for each in COMPONENTS if each not in NEEDS_OTHER_KINDS),
        ("cluster-scheduler", "admission/defaults", "own-lease", "openshift", "preemption", "mtls"),
    ],
    ids=", ".join,
)
def test_optional_parts_are_accepted(
    granted: LocalCluster, tmp_path: Path, components: tuple[str, ...]
) -> None:
    paths = {"resources": [MANIFESTS], "components": [MANIFESTS / each for each in components]}
    kustomization = {
        key: [os.path.relpath(path, tmp_path) for path in listed] for key, listed in paths.items()
    }
    # Components change what an overlay itself generates.
    settings = {"name": "optimus-settings", "namespace": "optimus-system", "behavior": "merge"}
    literals = ["OPTIMUS_PREEMPT=false", "OPTIMUS_EXTENDER_CLIENT_CA_FILE=/mine"]
    generators = [{**settings, "literals": literals}]
    (tmp_path / "kustomization.yaml").write_text(
        yaml.safe_dump({**kustomization, "configMapGenerator": generators})
    )
    listed = granted.kubectl(
        "apply", "--server-side", "--force-conflicts", "--dry-run=server", "-k", str(tmp_path)
    )
    assert all(line.endswith("serverside-applied (server dry run)") for line in listed.splitlines())
