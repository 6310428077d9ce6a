"""From a container's JSON to a command line: entry point, interpreter, programs of the image,
folders."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from localcluster.images import Environment
from localcluster.node.content import ContentSource
from localcluster.node.launch import (
    CannotStart,
    LaunchContext,
    Prepared,
    exec_launch,
    prepare_launch,
)
from localcluster.node.objects import TokenRequest
from localcluster.node.services import RunTable
from localcluster.node.spec import Json, parse_pod
from localcluster.node.volumes import PodVolumes, VolumeContext
from tests.unit.node.pods import pod
from tests.unit.node.test_services import Counter


class Nothing:
    """An API server on which there is nothing."""

    def values(self, kind: str, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return None

    def volume_of_claim(self, namespace: str, name: str) -> Json:
        raise AssertionError("no claim is used here")

    def token(self, request: TokenRequest) -> str:
        raise AssertionError("no token is used here")


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
) -> Prepared:
    """Prepare the launch of a pod's only container, with an emptyDir called v."""
    raw = pod({"name": "main", "image": "i", **fields}, volumes=[{"name": "v", "emptyDir": {}}])
    nothing = Nothing()
    source = ContentSource(nothing, nothing, {}, "https://s", "")
    volumes = PodVolumes(folder / "pod", VolumeContext(nothing, source, ports or {}))
    volumes.prepare(raw)
    context = LaunchContext(
        objects=nothing,
        services=RunTable(Counter()),
        volumes=volumes,
        scratch=folder / "pod" / "scratch",
        marker="mark",
        api_host="127.0.0.1",
        api_port=6443,
        node_capacity={},
        ports=ports or {},
    )
    return prepare_launch(raw, parse_pod(raw).main[0], image, context)


@pytest.mark.parametrize(
    ("fields", "argv"),
    [
        pytest.param(
            {}, ("tool", "--default"), id="the image's entry point where the container names none"
        ),
        pytest.param(
            {"args": ["x"]}, ("tool", "--default", "x"), id="followed by the container's arguments"
        ),
        pytest.param(
            {"command": ["tool"], "args": ["x"]},
            ("tool", "x"),
            id="a command replaces the entry point",
        ),
        pytest.param(
            {"command": ["/usr/bin/tool"]}, ("/usr/bin/tool",), id="by its path inside the image"
        ),
    ],
)
def test_commands(
    tmp_path: Path, image: Environment, fields: dict[str, Any], argv: tuple[str, ...]
) -> None:
    launch = prepare(tmp_path, image, **fields).launch
    assert (launch.argv, launch.program) == (argv, str(tmp_path / "image" / "tool"))


def test_python_is_the_interpreter_of_the_image_by_its_full_path(
    tmp_path: Path, image: Environment
) -> None:
    launch = prepare(tmp_path, image, command=["python", "-c", "1"]).launch
    assert launch.program == image.interpreter
    assert launch.argv == (image.interpreter, "-c", "1")


def test_arguments_refer_to_variables_and_are_rewritten_once(
    tmp_path: Path, image: Environment
) -> None:
    prepared = prepare(
        tmp_path,
        image,
        ports={8080: 23456},
        args=["--dir=$(DIR)/x", "--listen=$(ADDRESS)", "$$(DIR)"],
        env=[{"name": "DIR", "value": "/data"}, {"name": "ADDRESS", "value": "127.0.0.1:8080"}],
        volumeMounts=[{"name": "v", "mountPath": "/data"}],
    )
    folder = tmp_path / "pod" / "volumes" / "v"
    assert prepared.launch.argv[2:] == (f"--dir={folder}/x", "--listen=127.0.0.1:23456", "$(DIR)")
    assert prepared.launch.env["DIR"] == str(folder)


def test_variables_are_a_clean_set_the_images_and_the_containers(
    tmp_path: Path, image: Environment
) -> None:
    env = prepare(tmp_path, image, env=[{"name": "OWN", "value": "1"}]).launch.env
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


def test_a_mount_at_tmp_is_where_temporary_files_go_and_nothing_else_moves(
    tmp_path: Path, image: Environment
) -> None:
    env = prepare(tmp_path, image, volumeMounts=[{"name": "v", "mountPath": "/tmp"}]).launch.env
    assert env["TMPDIR"] == str(tmp_path / "pod" / "volumes" / "v")
    assert env["HOME"] == str(tmp_path / "pod" / "scratch")


@pytest.mark.parametrize(
    ("working_dir", "expected"),
    [
        pytest.param(None, "", id="the image's"),
        pytest.param("/data", "pod/volumes/v", id="a mount path"),
        pytest.param(
            "/no/such/folder", "", id="one that is only in a real image: the image's here"
        ),
    ],
)
def test_working_folders(
    tmp_path: Path, image: Environment, working_dir: str | None, expected: str
) -> None:
    mounts = [{"name": "v", "mountPath": "/data"}]
    launch = prepare(tmp_path, image, workingDir=working_dir, volumeMounts=mounts).launch
    assert launch.folder == str(tmp_path / expected)


def test_a_probes_command_runs_as_its_container_but_is_not_expanded(
    tmp_path: Path, image: Environment
) -> None:
    base = prepare(tmp_path, image, volumeMounts=[{"name": "v", "mountPath": "/data"}])
    launch = exec_launch(base, ["tool", "/data/x", "$(HOME)"], image)
    assert launch.argv == ("tool", str(tmp_path / "pod" / "volumes" / "v" / "x"), "$(HOME)")
    assert launch.env == base.launch.env


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        pytest.param(
            {"command": ["nope"]},
            'exec: "nope": executable file not found',
            id="an unknown program",
        ),
        pytest.param({"command": ["/opt/nope"]}, 'exec: "/opt/nope"', id="an unknown path"),
    ],
)
def test_a_program_that_is_not_there_is_a_sentence(
    tmp_path: Path, image: Environment, fields: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(CannotStart, match=sentence):
        prepare(tmp_path, image, **fields)


def test_no_command_and_no_entry_point_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="has no entry point here"):
        prepare(tmp_path, Environment())
    with pytest.raises(CannotStart, match="empty"):
        exec_launch(prepare(tmp_path, Environment(), command=["sh"]), [], Environment())
