"""Held-out accuracy of the MXNet and TensorFlow examples, rescaled five times and never.

``python -m benchmarks.accuracy_over_rescales [--seeds 5] [--frameworks mxnet,tensorflow]``. A job
trains 12 epochs of 6,400 examples. A rescale tells all processes to stop, as the pods of a
suspended job are told, and starts the job at other counts from its checkpoint. Noise is what two
runs without a rescale differ by, of the same seed at two and at three workers: their batches are
made up of other examples. MXNet trains synchronously, TensorFlow asynchronously."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from localcluster.environments import framework_environments
from localcluster.ports import pick_ports

_ROOT: Final = Path(__file__).parents[1]
_EVALUATE: Final = Path(__file__).parent / "accuracy_jobs" / "evaluate.py"
_LIMIT_SECONDS: Final = 600.0
_EXAMPLES: Final = 6_400
_BATCH: Final = {"mxnet": 128, "tensorflow": 64}
_EPOCHS: Final = 12

Counts = tuple[int, int]
"""Parameter servers and workers."""
WAYS: Final[Mapping[str, Sequence[Counts]]] = {
    "2 workers": ((1, 2),),
    "3 workers": ((1, 3),),
    "five rescales": ((1, 2), (2, 3), (1, 1), (2, 2), (1, 3), (2, 1)),
}
"""The counts of a run, one after the other, each for an equal part of the steps."""


def main() -> None:
    """Print one row for each framework, seed and way, and what they come to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--frameworks", default="mxnet,tensorflow")
    options = parser.parse_args()
    for framework in options.frameworks.split(","):
        results: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
        for seed in range(1, options.seeds + 1):
            for way, counts in WAYS.items():
                accuracy, loss = train(framework, seed, counts)
                results[way].append((accuracy, loss))
                row = {"framework": framework, "seed": seed, "way": way}
                print(json.dumps({**row, "accuracy": accuracy, "loss": loss}), flush=True)
        for number, measure in enumerate(("accuracy", "loss")):
            _summarise(framework, measure, {w: [r[number] for r in results[w]] for w in WAYS})


def _summarise(framework: str, measure: str, values: Mapping[str, Sequence[float]]) -> None:
    """The means, and by how much the rescaled runs and those without differ, seed by seed."""
    two, three, rescaled = (values[way] for way in WAYS)
    for way in WAYS:
        print(f"{framework}, {way}: {measure} {statistics.fmean(values[way]):.4f} in the mean")
    pairs = {
        "five rescales against the mean of those without": [
            r - (a + b) / 2 for a, b, r in zip(two, three, rescaled, strict=True)
        ],
        "3 workers against 2 (noise)": [b - a for a, b in zip(two, three, strict=True)],
    }
    for name, differences in pairs.items():
        spread = statistics.stdev(differences) if len(differences) > 1 else float("nan")
        mean = statistics.fmean(differences)
        print(f"{framework}, {measure}, {name}: {mean:+.4f}, standard deviation {spread:.4f}")


def train(
    framework: str, seed: int, counts: Sequence[Counts], epochs: int = _EPOCHS
) -> tuple[float, float]:
    """Train at these counts, one after the other; accuracy and cross-entropy on held-out data."""
    environment = framework_environments()[f"optimus-examples-{framework}"]
    if isinstance(environment, str):
        sys.exit(environment)
    python = str(environment / "bin" / "python")
    steps = epochs * _EXAMPLES // _BATCH[framework]
    with tempfile.TemporaryDirectory() as folder:
        flags = [f"--steps={steps}", f"--checkpoint-dir={folder}", f"--seed={seed}"]
        flags += [f"--examples={_EXAMPLES}", f"--checkpoint-steps={steps}"]
        for number, (ps, workers) in enumerate(counts, start=1):
            roles = _mxnet_roles(ps, workers) if framework == "mxnet" else _tf_roles(ps, workers)
            last = steps * number // len(counts)
            command = [python, "-m", f"examples.{framework}.train", *flags]
            _run(command, roles, last if number < len(counts) else None)
        evaluation = [python, str(_EVALUATE), framework, folder, str(_EXAMPLES), str(seed)]
        printed = subprocess.run(
            evaluation, env=_environment({}), stdout=subprocess.PIPE, check=True, text=True
        ).stdout
    accuracy, loss = json.loads(printed.splitlines()[-1])
    return accuracy, loss


def _mxnet_roles(ps: int, workers: int) -> list[dict[str, str]]:
    """The variables of each process; worker 0, which saves, is the last."""
    (port,) = pick_ports(1)
    shared = {
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_NODE_HOST": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_SERVER": str(ps),
        "DMLC_NUM_WORKER": str(workers),
    }
    numbers = [{"DMLC_WORKER_ID": str(number)} for number in reversed(range(workers))]
    roles = [("scheduler", {}), *[("server", {})] * ps, *(("worker", each) for each in numbers)]
    return [{**shared, "DMLC_ROLE": role, **own} for role, own in roles]


def _tf_roles(ps: int, workers: int) -> list[dict[str, str]]:
    """The same; the chief is the last."""
    roles = [("ps", n) for n in range(ps)] + [("worker", n) for n in range(workers)]
    roles.append(("chief", 0))
    cluster: dict[str, list[str]] = {}
    for (role, _), port in zip(roles, pick_ports(len(roles)), strict=True):
        cluster.setdefault(role, []).append(f"127.0.0.1:{port}")
    return [
        {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})}
        for role, index in roles
    ]


def _run(command: Sequence[str], roles: Sequence[Mapping[str, str]], last: int | None) -> None:
    """Run a job to its end, or tell all to stop after this step, and wait until it has saved."""
    started = [
        subprocess.Popen(
            command,
            env=_environment(role),
            cwd=_ROOT,
            stdout=subprocess.PIPE if role is roles[-1] else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        for role in roles
    ]
    saves = started[-1]
    try:
        assert saves.stdout is not None
        for line in saves.stdout:
            step = re.search(r"\bstep=(\d+)", line)
            if last is not None and step and int(step[1]) >= last:
                for process in started:
                    process.terminate()
                break
        saves.communicate(timeout=_LIMIT_SECONDS)
        if saves.returncode not in (0, 143):
            sys.exit(f"{command} ended with {saves.returncode}")
    finally:
        for process in started:
            process.kill()
            process.wait()


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    path = os.pathsep.join(map(str, (_ROOT, _ROOT / "trainer" / "src")))
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "0", "OMP_NUM_THREADS": "1"}
    return {**os.environ, **quiet, "PYTHONPATH": path, **variables}


if __name__ == "__main__":
    main()
