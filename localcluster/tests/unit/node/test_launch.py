"""From a container's JSON to a command line: entry point, interpreter, programs of the image,
folders."""

from pathlib import Path
from typing import Any

import pytest

from localcluster.images import Environment
from localcluster.node.cluster_objects import ClusterObjects
from localcluster.node.launch import CannotStart, LaunchContext, prepare_launch
from localcluster.node.pod_spec import Unresolved, parse_pod
from localcluster.node.process_table import Launch
from localcluster.node.volumes import PodVolumes
from tests.cases import cases
from tests.unit.node.fake_api import FakeApi
from tests.unit.node.pods import pod
from tests.unit.node.test_services import Counter

SETTINGS = "/api/v1/namespaces/ns/configmaps/settings"


@pytest.fixture
def image(tmp_path: Path) -> Environment:
    """An image with an interpreter, a program and an entry point of its own."""
    programs = tmp_path / "image"
    programs.mkdir()
    for name in ("python", "tool"):
        (programs / name).write_text("#!/bin/sh\n")
        (programs / name).chmod(0o755)
    return Environment(
        path=(str(programs),),
        working_dir=str(tmp_path),
        env={"FROM_IMAGE": "yes"},
        interpreter=str(programs / "python"),
        command=("tool", "--default"),
    )


def prepare(
    folder: Path, image: Environment, ports: dict[int, int] | None = None, **fields: Any
) -> Launch:
    """Prepare the launch of a pod's only container, with an emptyDir called v, in a namespace with
    the config map `settings`."""
    objects = ClusterObjects(FakeApi({SETTINGS: {"data": {"X": "shared", "Y": "/v/shared"}}}))
    raw = pod(
        {"name": "main", "image": "i", **fields},
        volumes=[{"name": "v", "emptyDir": {}}],
        serviceAccountName="me",
    )
    volumes = PodVolumes(folder / "pod", objects, ("https://s", ""), ports or {})
    volumes.prepare(raw)
    context = LaunchContext(
        peers=Counter().addresses(),
        volumes=volumes,
        scratch=folder / "pod" / "scratch",
        marker="mark",
        api_host="127.0.0.1",
        api_port=6443,
        ports=ports or {},
        objects=objects,
    )
    return prepare_launch(raw, parse_pod(raw).main[0], image, context)


@cases(
    ("fields", "argv"),
    {
        "the image's entry point where the container names none": ({}, ("tool", "--default")),
        "followed by the container's arguments": ({"args": ["x"]}, ("tool", "--default", "x")),
        "a command replaces the entry point": ({"command": ["tool"], "args": ["x"]}, ("tool", "x")),
        "by its path inside the image": ({"command": ["/usr/bin/tool"]}, ("/usr/bin/tool",)),
    },
)
def test_commands(
    tmp_path: Path, image: Environment, fields: dict[str, Any], argv: tuple[str, ...]
) -> None:
    launch = prepare(tmp_path, image, **fields)
    assert (launch.argv, launch.program) == (argv, str(tmp_path / "image" / "tool"))


def test_arguments_refer_to_variables_and_are_rewritten_once(
    tmp_path: Path, image: Environment
) -> None:
    launch = prepare(
        tmp_path,
        image,
        ports={8080: 23456},
        args=["--dir=$(DIR)/x", "--listen=$(ADDRESS)", "$$(DIR)"],
        env=[{"name": "DIR", "value": "/data"}, {"name": "ADDRESS", "value": "127.0.0.1:8080"}],
        volumeMounts=[{"name": "v", "mountPath": "/data"}],
    )
    folder = tmp_path / "pod" / "volumes" / "v"
    assert launch.argv[2:] == (f"--dir={folder}/x", "--listen=127.0.0.1:23456", "$(DIR)")
    assert launch.env["DIR"] == str(folder)


def test_variables_are_a_clean_set_the_images_and_the_containers(
    tmp_path: Path, image: Environment
) -> None:
    env = prepare(tmp_path, image, env=[{"name": "OWN", "value": "1"}]).env
    assert set(env) == {
        "PATH",
        "HOME",
        "TMPDIR",
        "LANG",
        "HOSTNAME",
        "FROM_IMAGE",
        "KUBERNETES_SERVICE_HOST",
        "KUBERNETES_SERVICE_PORT",
        "KUBERNETES_SERVICE_PORT_HTTPS",
        "OWN",
        "LOCALCLUSTER_POD",
    }
    assert env["PATH"].startswith(f"{image.path[0]}:")


@cases(
    ("fields", "sentence"),
    {
        "an unknown program": ({"command": ["nope"]}, 'exec: "nope": executable file not found'),
        "an unknown path": ({"command": ["/opt/nope"]}, 'exec: "/opt/nope"'),
    },
)
def test_a_missing_program_is_reported(
    tmp_path: Path, image: Environment, fields: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CannotStart, match=sentence):
        prepare(tmp_path, image, **fields)


def field(path: str) -> list[dict[str, Any]]:
    """A variable X with the value of a field."""
    return [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": path}}}]


@cases(
    ("path", "expected"),
    {
        "the pod's name": ("metadata.name", "p"),
        "its namespace": ("metadata.namespace", "ns"),
        "the node": ("spec.nodeName", "n1"),
        "the service account": ("spec.serviceAccountName", "me"),
        "the address of the pod": ("status.podIP", "127.0.0.1"),
        "an annotation that it lacks": ("metadata.annotations['a.example/b']", ""),
    },
)
def test_a_field_of_the_pod(tmp_path: Path, image: Environment, path: str, expected: str) -> None:
    assert prepare(tmp_path, image, env=field(path)).env["X"] == expected


def from_settings(**more: Any) -> list[dict[str, Any]]:
    return [{"configMapRef": {"name": "settings"}, **more}]


def test_variables_of_a_config_map_come_before_those_of_the_container(
    tmp_path: Path, image: Environment
) -> None:
    entries = [{"name": "X", "value": "own"}, {"name": "Z", "value": "$(Y)"}]
    env = prepare(tmp_path, image, envFrom=from_settings(), env=entries).env
    assert (env["X"], env["Y"], env["Z"]) == ("own", "/v/shared", "/v/shared")


def test_a_config_map_of_variables_that_is_missing_is_waited_for_unless_it_is_optional(
    tmp_path: Path, image: Environment
) -> None:
    with pytest.raises(Unresolved, match='configmap "no" not found'):
        prepare(tmp_path, image, envFrom=[{"configMapRef": {"name": "no"}}])
    optional = [{"configMapRef": {"name": "no", "optional": True}}]
    assert "X" not in prepare(tmp_path, image, envFrom=optional).env
