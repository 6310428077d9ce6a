"""Processes of the scripts in `jobs/`, in the environments of the frameworks."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

_ROOT = Path(__file__).parents[3]
Environments = Mapping[str, Path | str]


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
