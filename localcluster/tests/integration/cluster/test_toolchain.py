"""Go is taken from the machine where it is new enough, and builds are put in place at once."""

from pathlib import Path

from localcluster.binaries.toolchain import machine_go
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
