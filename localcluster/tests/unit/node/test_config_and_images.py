"""The configuration file, image names, and what process nodes do not support."""

import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from localcluster.images import Environment, ImageCatalog, Unavailable, default_images
from localcluster.node.config import AgentConfig, BadConfig, load_config
from localcluster.node.pod_spec import unsupported
from localcluster.paths import REPOSITORY, SOURCES
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


def test_a_good_configuration_is_read(tmp_path: Path) -> None:
    config = read(tmp_path, {**GOOD, "settings": {"back_off": {"base_seconds": 1}}})
    assert (config.nodes[0].name, config.nodes[0].capacity["pods"]) == ("n1", "110")
    assert config.settings.back_off.base_seconds == 1.0
    assert isinstance(config.images.lookup("busybox"), Environment)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        pytest.param({"nodes": []}, "nodes", id="no node"),
        pytest.param({"nodes": [{}]}, "missing required field `name`", id="a node without a name"),
        pytest.param(
            {"nodes": [{"name": "a", "capacity": {"cpu": "x"}}]},
            "cpu",
            id="a capacity that is none",
        ),
        pytest.param({"images": {"entries": {"a": []}}}, "entries", id="an image of no form"),
        pytest.param(
            {"images": {"entries": {"a": {"type": "environment", "path": "x"}}}},
            "path",
            id="a path that is no list",
        ),
        pytest.param({"settings": {"speed": 1}}, "speed", id="an unknown setting"),
        pytest.param({"settings": {"lease_seconds": 0}}, "lease_seconds", id="a setting of 0"),
    ],
)
def test_an_invalid_configuration_is_refused_with_a_message(
    tmp_path: Path, change: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(BadConfig, match=sentence):
        read(tmp_path, {**GOOD, **change})


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="kubeconfig"):
        read(tmp_path, {"state_dir": "/s"})


def test_a_file_that_is_not_json_is_refused_with_a_message(tmp_path: Path) -> None:
    (tmp_path / "c").write_text("{")
    with pytest.raises(BadConfig, match="cannot be used"):
        load_config(tmp_path / "c")


CATALOG = ImageCatalog(
    {"busybox": Environment(), "tool:2": Environment(path=("/two",)), "gone": Unavailable("why")}
)


@pytest.mark.parametrize(
    ("image", "known"),
    [
        pytest.param("busybox", True, id="the name alone"),
        pytest.param("busybox:1.36", True, id="with any tag"),
        pytest.param("docker.io/library/busybox:1.36", True, id="with the default registry"),
        pytest.param("busybox@sha256:abc", True, id="by digest"),
        pytest.param("tool:2", True, id="an entry with a tag, by that tag"),
        pytest.param("tool:1", False, id="and by no other"),
        pytest.param("example.org:5000/busybox", False, id="another registry is another image"),
        pytest.param("nginx", False, id="an unknown name"),
    ],
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


def test_a_catalog_is_the_same_after_json() -> None:
    extra: dict[str, Path | str] = {
        "optimus-examples-mxnet": Path("/mx"),
        "optimus-examples-tensorflow": "no wheel",
    }
    catalog = default_images(Path("/bin"), extra)
    assert msgspec.convert(catalog.to_json(), ImageCatalog) == catalog
    project = catalog.lookup("optimus-on-kubernetes:0.1.0")
    assert isinstance(project, Environment)
    assert (project.interpreter, project.working_dir, project.env["PYTHONPATH"]) == (
        f"{sys.prefix}/bin/python",
        str(REPOSITORY),
        SOURCES,
    )
    assert catalog.lookup("optimus-examples-tensorflow") == Unavailable("no wheel")


def test_example_images_without_an_environment_say_so() -> None:
    found = default_images(Path("/bin")).lookup("optimus-examples-mxnet")
    assert isinstance(found, Unavailable)
    assert "was not set up" in found.sentence


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        pytest.param(
            pod(volumes=[{"name": "v", "nfs": {}}]),
            'type nfs (volume "v")',
            id="a volume of another type",
        ),
        pytest.param(
            pod(container(livenessProbe={"exec": {}})), "other than httpGet", id="an exec probe"
        ),
        pytest.param(pod(container(lifecycle={"preStop": {}})), "lifecycle", id="a hook"),
        pytest.param(
            pod(container(envFrom=[{"secretRef": {"name": "s"}}])),
            "an envFrom other than configMapRef",
            id="the variables of a secret",
        ),
        pytest.param(
            pod(container(env=[{"name": "X", "valueFrom": {"secretKeyRef": {}}}])),
            "other than fieldRef",
            id="a variable from a secret",
        ),
        pytest.param(
            pod(container(volumeMounts=[{"name": "v", "mountPath": "/v", "subPath": "x"}])),
            "subPath",
            id="a part of a volume",
        ),
        pytest.param(pod(container(workingDir="/w")), "workingDir", id="a working folder"),
        pytest.param(pod(readinessGates=[{}]), "readinessGates", id="readiness gates"),
        pytest.param(pod(resourceClaims=[{}]), "resourceClaims", id="resource claims"),
        pytest.param(pod(activeDeadlineSeconds=1), "activeDeadlineSeconds", id="a deadline"),
        pytest.param(pod(container(volumeDevices=[{}])), "volumeDevices", id="a block device"),
        pytest.param(
            pod(init=(container("first"),)), 'Always (container "first")', id="an init container"
        ),
    ],
)
def test_unsupported_fields_are_reported(raw: dict[str, Any], sentence: str) -> None:
    found = unsupported(raw)
    assert found is not None
    assert sentence in found


def test_supported_fields_are_accepted() -> None:
    volumes = [{"name": "a", "emptyDir": {}}, {"name": "b"}, {"name": "c", "projected": {}}]
    probe = {"httpGet": {"port": 1}}
    assert unsupported(pod(container(livenessProbe=probe), volumes=volumes)) is None
