"""Ctrl-C while a cluster is launched or stopped: what has begun is finished first."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from localcluster.cluster import LocalCluster
from localcluster.processes import signals_deferred
from localcluster.specs import Backend
from localcluster.supervisor import control


@pytest.fixture(autouse=True)
def default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def press_ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_signal_waits_for_the_end_of_the_block() -> None:
    done: list[str] = []

    def block() -> None:
        with signals_deferred():
            press_ctrl_c()
            press_ctrl_c()
            done.append("block")

    with pytest.raises(KeyboardInterrupt):
        block()
    assert done == ["block"]
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


def test_a_launch_that_is_interrupted_is_finished_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def launch(*_: Any, **__: Any) -> tuple[subprocess.Popen[bytes], None]:
        press_ctrl_c()
        started.append(subprocess.Popen([sys.executable, "-c", "pass"]))
        return started[0], None

    monkeypatch.setattr(control, "launch", launch)
    with pytest.raises(KeyboardInterrupt):
        LocalCluster("test", backend=Backend.EMBEDDED).__enter__()
    assert started[0].returncode is not None
    assert list(tmp_path.iterdir()) == []
