"""The configuration file, image names, and what process nodes do not support."""

import json
from pathlib import Path
from typing import Any

import pytest

from localcluster.images import Environment, ImageCatalog, Unavailable
from localcluster.node.config import AgentConfig, BadConfig, load_config
from localcluster.node.pod_spec import unsupported
from tests.cases import cases
from tests.unit.node.pods import container, pod

GOOD: dict[str, Any] = {
    "kubeconfig": "/k",
    "state_dir": "/s",
    "images": {"entries": {"busybox": {"type": "environment"}}},
    "nodes": [
        {
            "name": "n1",
            "capacity": {"cpu": "4"},
            "taints": [{"key": "k", "value": "", "effect": "NoSchedule"}],
        }
    ],
}


def read(folder: Path, values: dict[str, Any]) -> AgentConfig:
    """Read these values from a file."""
    (folder / "config").write_text(json.dumps(values))
    return load_config(folder / "config")


@cases(
    ("change", "sentence"),
    {
        "no node": ({"nodes": []}, "nodes"),
        "a node without a name": ({"nodes": [{}]}, "missing required field `name`"),
        "a capacity that is none": ({"nodes": [{"name": "a", "capacity": {"cpu": "x"}}]}, "cpu"),
        "an image of no form": ({"images": {"entries": {"a": []}}}, "entries"),
        "a path that is no list": (
            {"images": {"entries": {"a": {"type": "environment", "path": "x"}}}},
            "path",
        ),
        "an unknown setting": ({"settings": {"speed": 1}}, "speed"),
        "a setting of 0": ({"settings": {"lease_seconds": 0}}, "lease_seconds"),
    },
)
def test_an_invalid_configuration_is_refused_with_a_message(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadConfig, match=sentence):
        read(tmp_path, {**GOOD, **change})


CATALOG = ImageCatalog(
    {"busybox": Environment(), "tool:2": Environment(path=("/two",)), "gone": Unavailable("why")}
)


@cases(
    ("image", "known"),
    {
        "the name alone": ("busybox", True),
        "with any tag": ("busybox:1.36", True),
        "with the default registry": ("docker.io/library/busybox:1.36", True),
        "by digest": ("busybox@sha256:abc", True),
        "an entry with a tag, by that tag": ("tool:2", True),
        "and by no other": ("tool:1", False),
        "another registry is another image": ("example.org:5000/busybox", False),
        "an unknown name": ("nginx", False),
    },
)
def test_image_names(image: str, *, known: bool) -> None:
    assert isinstance(CATALOG.lookup(image), Environment) == known


def test_an_unknown_image_names_the_known_ones() -> None:
    found = CATALOG.lookup("nginx:1")
    assert found == Unavailable(
        'no environment on this machine stands for image "nginx:1"; known images: busybox, gone, '
        "tool:2"
    )
    assert CATALOG.lookup("gone:1") == Unavailable("why")


@cases(
    ("raw", "sentence"),
    {
        "a volume of another type": (
            pod(volumes=[{"name": "v", "nfs": {}}]),
            'type nfs (volume "v")',
        ),
        "an exec probe": (pod(container(livenessProbe={"exec": {}})), "other than httpGet"),
        "a hook": (pod(container(lifecycle={"preStop": {}})), "lifecycle"),
        "the variables of a secret": (
            pod(container(envFrom=[{"secretRef": {"name": "s"}}])),
            "an envFrom other than configMapRef",
        ),
        "a variable from a secret": (
            pod(container(env=[{"name": "X", "valueFrom": {"secretKeyRef": {}}}])),
            "other than fieldRef",
        ),
        "a part of a volume": (
            pod(container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "x"}])),
            "subPath",
        ),
        "a working folder": (pod(container(workingDir="/w")), "workingDir"),
        "readiness gates": (pod(readinessGates=[{}]), "readinessGates"),
        "a deadline": (pod(activeDeadlineSeconds=1), "activeDeadlineSeconds"),
        "a block device": (pod(container(volumeDevices=[{}])), "volumeDevices"),
        "an init container": (pod(init=(container("first"),)), 'Always (container "first")'),
    },
)
def test_unsupported_fields_are_reported(raw: dict[str, Any], sentence: str) -> None:
    found = unsupported(raw)
    assert found is not None
    assert sentence in found
