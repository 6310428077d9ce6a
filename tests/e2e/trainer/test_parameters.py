"""Real TensorFlow and MXNet: what each PS holds and receives, by default and balanced."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from localcluster.ports import pick_ports
from optimus_trainer.parameters import TOLERANCE

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[3]
JOBS = Path(__file__).parent / "jobs"
MOST = 1 + TOLERANCE
PS = 3


def python_of(frameworks: Mapping[str, Path | str], image: str) -> str:
    environment = frameworks[f"optimus-examples-{image}"]
    assert isinstance(environment, Path), environment
    return str(environment / "bin" / "python")


def variables_of(environment: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join(map(str, (ROOT / "trainer/src", ROOT / "localcluster/src")))
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **quiet, "PYTHONPATH": path, **environment}


def unevenness(held: Sequence[float]) -> float:
    return max(held) * len(held) / sum(held)


@pytest.mark.parametrize("version", ["1", "2"])
def test_the_variables_of_tensorflow(frameworks: Mapping[str, Path | str], version: str) -> None:
    script, python = JOBS / "tensorflow_variables.py", python_of(frameworks, "tensorflow")

    def run(how: str) -> list[list[int]]:
        done = subprocess.run(
            [python, str(script), version, str(PS), how],
            env=variables_of({}),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: list[list[int]] = json.loads(done.stdout)
        return found

    default, balanced = run("default"), run("balanced")
    assert unevenness([held for held, _ in default]) > 1.5
    assert unevenness([held for held, _ in balanced]) <= MOST
    assert sum(held for held, _ in default) == sum(held for held, _ in balanced)
    requests = sum(count for _, count in balanced)
    assert 8 < requests <= 8 + 4 * (PS - 1), "few of the eight are cut"


class MxnetRun(NamedTuple):
    received: list[int]
    parameters: dict[str, list[float]]


def mxnet_run(python: str, interface: str, how: str) -> MxnetRun:
    """Train with three servers and two workers."""
    (port,) = pick_ports(1)
    shared = {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_NODE_HOST": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_SERVER": str(PS),
        "DMLC_NUM_WORKER": "2",
    }
    roles = ["scheduler", *["server"] * PS, "worker", "worker"]
    started = [
        subprocess.Popen(
            [python, str(JOBS / "mxnet_traffic.py"), interface, how],
            env=variables_of({**shared, "DMLC_ROLE": role}),
            stdout=subprocess.PIPE,
            text=True,
        )
        for role in roles
    ]
    try:
        lines = [process.communicate(timeout=100)[0].splitlines() for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0] * len(started), lines
    said: list[dict[str, Any]] = [json.loads(line) for each in lines for line in each]
    received: dict[int, int] = {}
    for each in said:
        if "server" in each:
            received[each["server"]] = max(received.get(each["server"], 0), each["received"])
    (parameters,) = (each["parameters"] for each in said if each.get("parameters"))
    return MxnetRun(list(received.values()), parameters)


@pytest.mark.parametrize("interface", ["module", "gluon"])
def test_the_traffic_of_mxnet(frameworks: Mapping[str, Path | str], interface: str) -> None:
    python = python_of(frameworks, "mxnet")
    default = mxnet_run(python, interface, "default")
    balanced = mxnet_run(python, interface, "balanced")
    assert unevenness(default.received) > 2
    assert unevenness(balanced.received) <= MOST
    # The same updates: momentum, decay by name and learning rate are those of the whole arrays.
    assert balanced.parameters.keys() == default.parameters.keys()
    for name, numbers in default.parameters.items():
        assert balanced.parameters[name] == pytest.approx(numbers, rel=1e-3, abs=1e-6), name
