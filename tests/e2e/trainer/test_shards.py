"""Real MXNet and TensorFlow: each example of an epoch is trained once through five rescales."""

import json
import signal
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from localcluster.ports import pick_ports
from tests.e2e.trainer.framework_processes import JOBS, Environments, run, run_mxnet, start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SIZES = (20, 37, 11)
RUNS = ((1, 2, 5, 3), (2, 3, 4, 4), (1, 1, 5, 3), (2, 4, 6, 5), (1, 2, 9, 9))
"""Servers, workers, steps, and steps until the last checkpoint: what follows is lost."""


def test_mxnet_trains_record_io_parts(frameworks: Environments, tmp_path: Path) -> None:
    run(frameworks, "mxnet", "write_records.py", tmp_path, *SIZES)
    firsts = {f"part-{number}": sum(SIZES[:number]) for number in range(len(SIZES))}
    for servers, workers, steps, kept in RUNS:
        said = run_mxnet(frameworks, servers, workers, "mxnet_shards.py", tmp_path, steps, kept)
        (saved,) = (each for each in said if "counts" in each)
        counts = list(saved["counts"])
        for chunk, begin, end in saved["left"]:
            for example in range(firsts[chunk] + begin, firsts[chunk] + end):
                counts[example] += 1
        assert counts == [saved["epoch"] + 1] * sum(SIZES)
    assert saved["epoch"] >= 4


def test_tensorflow_reads_files(frameworks: Environments, tmp_path: Path) -> None:
    (found,) = run(frameworks, "tensorflow", "tensorflow_shards.py", tmp_path)
    assert set(found["counts"]) == {found["passes"]}
    assert found["passes"] == 4


EXAMPLES = 1000
DISTURBED = (
    (1, 1, 13, signal.SIGKILL),
    (2, 2, 22, signal.SIGTERM),
    (1, 3, 33, signal.SIGKILL),
    (2, 1, 38, signal.SIGTERM),
    (1, 2, 47, signal.SIGKILL),
)
"""Servers, workers, and the step after which the chief is killed or told to stop. A checkpoint is
saved every five steps."""


class Job:
    """The processes of the TensorFlow example, with the model that counts."""

    def __init__(
        self, environments: Environments, servers: int, workers: int, *arguments: str
    ) -> None:
        roles = [("ps", n) for n in range(servers)] + [("worker", n) for n in range(workers)]
        roles.append(("chief", 0))
        ports = pick_ports(len(roles))
        cluster: dict[str, list[str]] = {}
        for (name, _), port in zip(roles, ports, strict=True):
            cluster.setdefault(name, []).append(f"127.0.0.1:{port}")
        self._started = [
            start(
                environments,
                "tensorflow",
                JOBS / "tensorflow_example.py",
                arguments,
                {"TF_CONFIG": json.dumps({"cluster": cluster, "task": {"type": t, "index": n}})},
            )
            for t, n in roles
        ]

    def __enter__(self) -> Popen[str]:
        """Return the chief."""
        return self._started[-1]

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


def test_the_tensorflow_example_trains_each_example_once(
    frameworks: Environments, tmp_path: Path
) -> None:
    """Its steps are asynchronous; the chief knows them all, and saves when none is on its way."""
    flags = [f"--examples={EXAMPLES}", "--batch=64", "--checkpoint-steps=5", "--steps=60"]
    flags += [f"--checkpoint-dir={tmp_path}", "--step-seconds=0.1"]
    for servers, workers, last, number in DISTURBED:
        with Job(frameworks, servers, workers, *flags) as chief:
            assert chief.stdout is not None
            for line in chief.stdout:
                if f" step={last} " in line:
                    break
            chief.send_signal(number)
            assert chief.wait(60) in (-signal.SIGKILL, 128 + signal.SIGTERM)
    with Job(frameworks, 1, 1, *flags) as chief:
        printed, errors = chief.communicate(timeout=120)
    assert chief.returncode == 0, errors
    found: Any = json.loads(printed.splitlines()[-1])
    counts = found["counts"]
    for chunk, begin, end in found["left"]:
        for example in range(int(chunk) * 400 + begin, int(chunk) * 400 + end):
            counts[example] += 1
    assert counts == [found["epoch"] + 1] * EXAMPLES
    assert found["epoch"] == 3
