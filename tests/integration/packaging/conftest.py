"""helm, and the objects that the chart renders with it."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.paths import REPOSITORY
from tests.harness.go_tools import HELM, run_tool
from tests.harness.kustomize import render

Objects = dict[tuple[str, str, str], dict[str, Any]]
KUBERNETES = "v1.36.3"


@pytest.fixture(scope="session")
def helm() -> Path:
    """The program; its first build on a machine takes some minutes."""
    return HELM.built()


@pytest.fixture(scope="session")
def chart(helm: Path) -> Callable[..., Objects]:
    """What the chart renders with values such as ``{"page.exposed": True}``."""

    def rendered(
        namespace: str = "optimus-system", kube_version: str = KUBERNETES, **values: Any
    ) -> Objects:
        given = [f"--set-json={name}={json.dumps(value)}" for name, value in values.items()]
        options = ["--namespace", namespace, "--kube-version", kube_version, *given]
        done = run_tool(helm, "template", "optimus", str(REPOSITORY / "chart"), *options)
        assert done.returncode == 0, done.stderr
        return by_place(each for each in yaml.safe_load_all(done.stdout) if each)

    return rendered


@pytest.fixture
def kustomized(tmp_path: Path) -> Callable[..., Objects]:
    """What kustomize renders of the CRDs and the base, with components."""

    def rendered(*components: str) -> Objects:
        manifests = REPOSITORY / "manifests"
        kustomization = {
            "resources": [os.path.relpath(manifests / name, tmp_path) for name in ("crds", "")],
            "components": [os.path.relpath(manifests / name, tmp_path) for name in components],
        }
        (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
        return by_place(render(tmp_path))

    return rendered


def by_place(bodies: Any) -> Objects:
    """Objects by kind, namespace and name."""
    found: Objects = {}
    for each in bodies:
        metadata = each["metadata"]
        place = each["kind"], metadata.get("namespace", ""), metadata["name"]
        assert place not in found
        found[place] = each
    return found
