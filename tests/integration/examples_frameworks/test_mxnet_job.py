"""MXNet's real kvstore in real processes: a job that is ended and goes on with other counts."""

import json
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from localcluster.ports import pick_ports
from tests.integration.examples_frameworks.processes import Job, Replica

pytestmark = pytest.mark.timeout(900)  # the first test of a machine installs MXNet

GLOBAL_BATCH = 100
SAVED = re.compile(r'Saved checkpoint to ".*-(\d+)\.params"')
FLAGS = [
    "--examples=3000",
    f"--global-batch={GLOBAL_BATCH}",
    "--worker-batch=50",
    "--checkpoint-steps=30",
]


LIBRARIES = (
    "import mxnet; print(*{line.split()[-1] for line in open('/proc/self/maps') if '.so' "
    "in line}, sep='\\n')"
)


def test_the_libraries_that_a_bare_machine_lacks_come_with_the_environment(
    mxnet_python: str,
) -> None:
    environment = Path(mxnet_python).parents[1].resolve()
    loaded = subprocess.run(
        [mxnet_python, "-c", LIBRARIES], capture_output=True, text=True, check=True, timeout=300
    )
    for name in ("libgomp", "libquadmath"):
        found = [path for path in loaded.stdout.splitlines() if Path(path).name.startswith(name)]
        assert found
        assert all(Path(path).is_relative_to(environment) for path in found), found


def environment(cluster: dict[str, int], port: int, role: str, index: int) -> dict[str, str]:
    """What the operator sets for one replica, its hosts and ports turned into local ones."""
    hosts = {kind: [{"url": "127.0.0.1", "port": port}] * count for kind, count in cluster.items()}
    return {
        "MX_CONFIG": json.dumps(
            {"cluster": hosts, "labels": {}, "task": {"type": role, "index": index}}
        ),
        "DMLC_PS_ROOT_URI": "127.0.0.1",
        "DMLC_PS_ROOT_PORT": str(port),
        "DMLC_NUM_SERVER": str(cluster["server"]),
        "DMLC_NUM_WORKER": str(cluster["worker"]),
        "DMLC_ROLE": role,
        "DMLC_USE_KUBERNETES": "1",
        "DMLC_NODE_HOST": "127.0.0.1",
        "OMP_NUM_THREADS": "1",
        **({"DMLC_WORKER_ID": str(index)} if role == "worker" else {}),
    }


def start(python: str, folder: Path, servers: int, workers: int, flags: list[str]) -> Job:
    """A job of one scheduler and the given counts, with its checkpoints in `folder`."""
    cluster = {"scheduler": 1, "server": servers, "worker": workers}
    (port,) = pick_ports(1)
    replicas = [
        Replica(f"{role}-{index}", environment(cluster, port, role, index))
        for role, count in cluster.items()
        for index in range(count)
    ]
    command = [
        python,
        "-u",
        "-m",
        "examples.mxnet.train",
        f"--checkpoint-dir={folder}",
        *FLAGS,
        *flags,
    ]
    return Job(command, replicas)


def global_losses(job: Job, workers: int) -> dict[int, float]:
    """Mean loss of each step's whole batch, from the means of all workers' shares that are
    printed."""
    sizes = [GLOBAL_BATCH // workers + (index < GLOBAL_BATCH % workers) for index in range(workers)]
    each = [job[f"worker-{index}"].losses() for index in range(workers)]
    complete = set.intersection(*map(set, each))
    return {
        step: sum(size * losses[step] for size, losses in zip(sizes, each, strict=True))
        / GLOBAL_BATCH
        for step in sorted(complete)
    }


def checkpoint_step(job: Job) -> int:
    """The step of the last checkpoint that worker 0 said to be complete."""
    return max(int(step) for line in job["worker-0"].lines for step in SAVED.findall(line))


def test_a_synchronous_job_with_other_counts_goes_on_as_if_it_had_never_stopped(
    mxnet_python: str, tmp_path: Path
) -> None:
    with start(mxnet_python, tmp_path / "whole", 1, 1, ["--steps=150"]) as job:
        assert job.wait_all() == [0, 0, 0]
        uninterrupted = job["worker-0"].losses()

    folder, paced = tmp_path / "rescaled", ["--steps=150", "--step-seconds=0.1"]
    with start(mxnet_python, folder, 1, 2, paced) as job:
        job["worker-0"].wait_for_line(lambda line: line.startswith("step=65 "))
        assert job.terminate_all() == [143] * 4
        before, done = global_losses(job, 2), checkpoint_step(job)

    with start(mxnet_python, folder, 2, 3, paced) as job:
        assert job.wait_all() == [0] * 6
        after = global_losses(job, 3)
    assert done >= 60
    assert list(after) == list(range(done + 1, 151))
    for step, loss in {**before, **after}.items():
        assert loss == pytest.approx(uninterrupted[step], abs=2e-3), f"step {step}"


def test_an_asynchronous_job_with_other_counts_goes_on_after_its_checkpoint(
    mxnet_python: str, tmp_path: Path
) -> None:
    flags = ["--kvstore=dist_async", "--steps=300", "--step-seconds=0.05", "--learning-rate=0.05"]
    with start(mxnet_python, tmp_path, 1, 2, flags) as job:
        job["worker-0"].wait_for_line(lambda line: line.startswith("step=131 "))
        assert job.terminate_all() == [143] * 4
        before, done = job["worker-0"].losses(), checkpoint_step(job)

    with start(mxnet_python, tmp_path, 2, 3, flags) as job:
        assert job.wait_all() == [0] * 6
        after = [job[f"worker-{index}"].losses() for index in range(3)]
    assert [min(losses) for losses in after] == [done + 1, done + 2, done + 3]
    assert sorted(step for losses in after for step in losses) == list(range(done + 1, 301))

    last = [loss for step, loss in before.items() if step <= done][-20:]
    first = np.mean([after[index % 3][done + 1 + index] for index in range(6)])
    assert min(last) <= first <= max(last)
    assert first < np.mean(list(before.values())[:6])


def test_the_log_has_the_lines_that_mxnet_users_know(mxnet_python: str, tmp_path: Path) -> None:
    with start(mxnet_python, tmp_path, 1, 1, ["--steps=60"]) as job:
        job.wait_all()
        text = "\n".join(job["worker-0"].lines)
    pair = r"\taccuracy=[\d.]+\tcross-entropy=[\d.]+"
    assert re.search(
        r"^INFO:root:Epoch\[0\] Batch \[10-20\]\tSpeed: [\d.]+ samples/sec" + pair,
        text,
        re.MULTILINE,
    )
    assert re.search(r"^INFO:root:Epoch\[1\] Train-cross-entropy=[\d.]+$", text, re.MULTILINE)
    assert re.search(r"^INFO:root:Epoch\[1\] Time cost=[\d.]+$", text, re.MULTILINE)
    assert f'INFO:root:Saved checkpoint to "{tmp_path}/model-0060.params"' in text


def test_a_finished_job_that_is_started_again_ends_at_once(
    mxnet_python: str, tmp_path: Path
) -> None:
    for _ in range(2):
        with start(mxnet_python, tmp_path, 1, 2, ["--steps=30"]) as job:
            assert job.wait_all() == [0] * 4
    assert job["worker-0"].losses() == {}


def test_more_workers_than_examples_in_a_step_are_refused_with_a_sentence(
    mxnet_python: str, tmp_path: Path
) -> None:
    with start(mxnet_python, tmp_path, 1, 2, ["--global-batch=1"]) as job:
        assert [job[f"worker-{index}"].wait() for index in range(2)] == [2, 2]
        assert (
            "a global batch of 1 examples cannot be shared by 2 workers"
            in job["worker-0"].lines[-1]
        )


@pytest.mark.parametrize(
    ("contents", "flags"),
    [
        pytest.param(b"no parameters", [], id="a file that MXNet cannot read"),
        pytest.param(None, ["--hidden=7"], id="the parameters of a model of another size"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused_with_a_sentence(
    mxnet_python: str, tmp_path: Path, contents: bytes | None, flags: list[str]
) -> None:
    with start(mxnet_python, tmp_path, 1, 1, ["--steps=1"]) as job:
        job.wait_all()
    if contents is not None:
        (tmp_path / "model-0001.params").write_bytes(contents)
    with start(mxnet_python, tmp_path, 1, 1, flags) as job:
        assert job["worker-0"].wait() == 2
        assert (
            "model-0001.params does not hold this model's parameters" in job["worker-0"].lines[-1]
        )


@pytest.mark.parametrize("kvstore", ["dist_sync", "dist_async"])
def test_a_file_of_one_worker_that_gets_content_ends_the_job(
    mxnet_python: str, tmp_path: Path, kvstore: str
) -> None:
    told = tmp_path / "told"
    told.mkdir()
    flags = [f"--kvstore={kvstore}", "--steps=99999", "--step-seconds=0.02"]
    flags.append(f"--stop-file={told / 'goal-met'}")
    with start(mxnet_python, tmp_path / "saved", 1, 2, flags) as job:
        job["worker-0"].wait_for_line(lambda line: " epoch=1 " in line)
        (told / "goal-met").write_text("2027-01-15T08:00:00Z")
        assert [job[f"worker-{index}"].wait() for index in (0, 1)] == [0, 0]
        ends = [
            [line for line in job[f"worker-{index}"].lines if "The goal is met" in line]
            for index in (0, 1)
        ]
        saved = [int(step) for line in job["worker-0"].lines for step in SAVED.findall(line)]
    assert all(len(each) == 1 for each in ends), ends
    assert str(saved[-1]) == ends[0][0].rsplit(" ", 1)[1]
    if kvstore == "dist_sync":
        assert ends[0][0].rsplit(" ", 1)[1] == ends[1][0].rsplit(" ", 1)[1]
