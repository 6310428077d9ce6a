"""Go is taken from the machine where it is new enough, and builds are put in place at once."""

import threading
from pathlib import Path

from localcluster.binaries.toolchain import machine_go
from localcluster.progress import PlainProgress
from localcluster.storage import publish
from tests.cases import cases


def fake_go(folder: Path, script: str) -> str:
    path = folder / "go"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


@cases(
    ("script", "taken"),
    {
        "just new enough": ("echo go version go1.26.0 linux/amd64", True),
        "newer": ("echo go version go1.27.3 linux/amd64", True),
        "too old": ("echo go version go1.25.9 linux/amd64", False),
        "another program of that name": ("echo what", False),
        "broken": ("exit 1", False),
    },
)
def test_the_machines_go_is_taken(tmp_path: Path, script: str, taken: bool) -> None:
    go = fake_go(tmp_path, script)
    assert machine_go((1, 26, 0), lambda name: go) == (Path(go) if taken else None)


def test_a_machine_without_go_has_none() -> None:
    assert machine_go((1, 26, 0), lambda name: None) is None


def test_two_builders_of_one_folder_build_once(tmp_path: Path) -> None:
    inside = threading.Barrier(2, timeout=180)
    builds: list[Path] = []

    def fill(work: Path) -> None:
        builds.append(work)
        inside.wait()  # the other builder is on its way while this one builds

    def build() -> None:
        publish(tmp_path / "key", fill, PlainProgress())

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait()
    for thread in threads:
        thread.join(180)
    assert len(builds) == 1
    assert (tmp_path / "key").is_dir()
