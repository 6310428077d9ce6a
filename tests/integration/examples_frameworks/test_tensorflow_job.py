"""TensorFlow's real parameter servers in real processes: a job that is ended and goes on with other
counts."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from localcluster.ports import pick_ports
from tests.integration.examples_frameworks.processes import Job, Replica

pytestmark = pytest.mark.timeout(900)  # the first test of a machine installs TensorFlow


def job_of(
    python: str, folder: Path, counts: dict[str, int], flags: list[str], only: str = ""
) -> Job:
    """A job with the given counts; `only` leaves out every other role's processes."""
    ports = iter(pick_ports(sum(counts.values())))
    cluster = {
        role: [f"127.0.0.1:{next(ports)}" for _ in range(count)] for role, count in counts.items()
    }

    def environment(role: str, index: int) -> dict[str, str]:
        task = {"type": role, "index": index}
        config = json.dumps({"cluster": cluster, "task": task, "environment": "cloud"})
        return {"TF_CONFIG": config, "OMP_NUM_THREADS": "1"}

    replicas = [
        Replica(f"{role}-{index}", environment(role, index))
        for role, count in counts.items()
        for index in range(count)
        if only in ("", role)
    ]
    command = [
        python,
        "-u",
        "-m",
        "examples.tensorflow.train",
        f"--checkpoint-dir={folder}",
        *flags,
    ]
    return Job(command, replicas)


def test_a_job_with_other_counts_goes_on_after_its_checkpoint_and_its_chief_ends_it(
    tensorflow_python: str, tmp_path: Path
) -> None:
    flags = ["--steps=150", "--checkpoint-steps=30", "--step-seconds=0.1"]
    with job_of(tensorflow_python, tmp_path, {"chief": 1, "ps": 1, "worker": 1}, flags) as job:
        job["chief-0"].wait_for_line(lambda line: " step=95 " in line)
        assert job.terminate_all() == [143] * 3
        before = job["chief-0"].losses()
        done = max(
            int(step)
            for line in job["chief-0"].lines
            for step in re.findall(r" checkpoint=(\d+)$", line)
        )

    with job_of(tensorflow_python, tmp_path, {"chief": 1, "ps": 2, "worker": 2}, flags) as job:
        assert job["chief-0"].wait() == 0
        after = job["chief-0"].losses()
        assert job["chief-0"].lines[-1].endswith(" checkpoint=150")
        assert job.terminate_all() == [0] + [143] * 4
    assert done >= 90
    assert list(after) == list(range(done + 1, 151))

    last_twenty = [before[step] for step in range(done - 19, done + 1)]
    first = np.mean([after[step] for step in range(done + 1, done + 7)])
    assert min(last_twenty) <= first <= max(last_twenty)
    assert first < np.mean([before[step] for step in range(1, 7)])


def test_a_file_that_gets_content_ends_the_job_at_the_next_checkpoint(
    tensorflow_python: str, tmp_path: Path
) -> None:
    stop_file = tmp_path / "goal-met"
    stop_file.touch()
    flags = [
        "--steps=9999",
        "--checkpoint-steps=30",
        "--step-seconds=0.2",
        f"--stop-file={stop_file}",
    ]
    counts = {"chief": 1, "ps": 1, "worker": 1}
    with job_of(tensorflow_python, tmp_path / "saved", counts, flags) as job:
        job["chief-0"].wait_for_line(lambda line: " step=40 " in line)
        stop_file.write_text("2027-01-15T08:00:00Z")
        assert job["chief-0"].wait() == 0
        assert job["chief-0"].lines[-1] == "The goal is met: the training ends"
        assert any(line.endswith(" checkpoint=60") for line in job["chief-0"].lines)
        job.terminate_all()


@pytest.mark.parametrize(
    ("lost", "sentence"),
    [
        pytest.param(
            "worker-0", "giving up: waited 30 s for step", id="the only worker, which may come back"
        ),
        pytest.param("ps-0", "giving up: ", id="a parameter server"),
    ],
)
def test_the_chief_ends_with_a_sentence_when_it_loses(
    tensorflow_python: str, tmp_path: Path, lost: str, sentence: str
) -> None:
    flags = ["--steps=9999", "--step-seconds=0.05", "--stall-seconds=60"]
    if lost == "worker-0":
        flags[-1] = "--stall-seconds=30"
    with job_of(tensorflow_python, tmp_path, {"chief": 1, "ps": 1, "worker": 1}, flags) as job:
        job["chief-0"].wait_for_line(lambda line: " step=5 " in line)
        job[lost].kill()
        assert job["chief-0"].wait() == 1
        assert any(line.startswith(sentence) for line in job["chief-0"].lines)


def test_a_chief_whose_cluster_never_comes_up_ends_with_a_sentence(
    tensorflow_python: str, tmp_path: Path
) -> None:
    counts = {"chief": 1, "ps": 1, "worker": 1}
    with job_of(tensorflow_python, tmp_path, counts, ["--startup-seconds=3"], only="chief") as job:
        assert job["chief-0"].wait() == 1
        assert "giving up: waited 3 s for the cluster to come up" in job["chief-0"].lines[-1]


def test_a_checkpoint_that_cannot_be_read_is_refused_with_a_sentence(
    tensorflow_python: str, tmp_path: Path
) -> None:
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "ckpt-1"\nall_model_checkpoint_paths: "ckpt-1"\n'
    )
    (tmp_path / "ckpt-1.index").write_bytes(b"no index")
    with job_of(tensorflow_python, tmp_path, {"chief": 1, "ps": 1, "worker": 1}, []) as job:
        assert job["chief-0"].wait() == 2
        assert "ckpt-1 cannot be read; use another folder" in job["chief-0"].lines[-1]
