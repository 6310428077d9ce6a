"""Processes of the scripts in `jobs/`, in the environments of the frameworks."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from localcluster.ports import pick_ports

_ROOT = Path(__file__).parents[3]
JOBS = Path(__file__).parent / "jobs"
_LIMIT_SECONDS = 120

Environments = Mapping[str, Path | str]


def run(environments: Environments, framework: str, script: str, *arguments: object) -> list[Any]:
    """What a script prints, line by line, as JSON."""
    return _ended(start(environments, framework, JOBS / script, arguments, {}))


def run_mxnet(
    environments: Environments, servers: int, workers: int, script: str, *arguments: object
) -> list[Any]:
    """The same of all processes of a job of MXNet."""
    (port,) = pick_ports(1)
    shared = {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_NODE_HOST": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_SERVER": str(servers),
        "DMLC_NUM_WORKER": str(workers),
    }
    roles = ["scheduler", *["server"] * servers, *["worker"] * workers]
    started = [
        start(environments, "mxnet", JOBS / script, arguments, {**shared, "DMLC_ROLE": role})
        for role in roles
    ]
    try:
        by_workers = [_ended(process) for process in started[1 + servers :]]
    finally:
        for process in started:
            process.terminate()
    others = [_ended(process, check=False) for process in started[: 1 + servers]]
    return [line for lines in (*others, *by_workers) for line in lines]


def start(
    environments: Environments,
    framework: str,
    script: Path,
    arguments: tuple[object, ...],
    variables: Mapping[str, str],
) -> subprocess.Popen[str]:
    """Start a script in the environment of a framework."""
    environment = environments[f"optimus-examples-{framework}"]
    assert isinstance(environment, Path), environment
    path = os.pathsep.join(map(str, (_ROOT, _ROOT / "trainer/src", _ROOT / "localcluster/src")))
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [str(environment / "bin" / "python"), str(script), *map(str, arguments)],
        env={**os.environ, **quiet, "PYTHONPATH": path, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _ended(process: subprocess.Popen[str], *, check: bool = True) -> list[Any]:
    try:
        printed, errors = process.communicate(timeout=_LIMIT_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 0 or not check, errors
    return [json.loads(line) for line in printed.splitlines() if line.endswith(("}", "]"))]
