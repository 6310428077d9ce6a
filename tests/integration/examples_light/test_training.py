"""The light trainer with real processes: same results whatever the counts, ends, resumes, survives
deaths."""

import signal
from pathlib import Path

import pytest

from tests.cases import cases
from tests.integration.examples_light.jobs import (
    Job,
    Program,
    mxnet_environments,
    tensorflow_environments,
)

pytestmark = pytest.mark.integration

_EVERY_STEP = ["--log-steps=1", "--log-seconds=0"]
_SLOWLY = [
    *_EVERY_STEP,
    "--step-seconds=0.02",
    "--epochs=20",
    "--checkpoint-steps=50",
    "--peer-timeout-seconds=120",
]
_STEPS_OF_20_EPOCHS = 400


@pytest.fixture(scope="module")
def expected_losses() -> dict[int, float]:
    """Loss by step of an undisturbed synchronous run with one PS and one worker."""
    with Job(tensorflow_environments(1, 1), [*_EVERY_STEP, "--epochs=20"]) as job:
        assert job.ends("worker") == {"worker-0": 0}
        losses = job["worker-0"].losses()
    assert list(losses) == list(range(1, _STEPS_OF_20_EPOCHS + 1))
    return losses


def _assert_as_expected(program: Program, expected: dict[int, float]) -> None:
    for step, loss in program.losses().items():
        assert loss == pytest.approx(expected[step], abs=2e-6), f"step {step}\n{program.text}"


def test_sync_losses_do_not_depend_on_the_counts(expected_losses: dict[int, float]) -> None:
    with Job(tensorflow_environments(2, 3), [*_EVERY_STEP, "--epochs=20"]) as job:
        assert set(job.ends("worker").values()) == {0}
        for name in ("worker-0", "worker-1", "worker-2"):
            assert job[name].steps() == list(expected_losses)
            _assert_as_expected(job[name], expected_losses)


def test_async_converges() -> None:
    flags = [
        "--mode=async",
        "--learning-rate=0.005",
        "--worker-batch-size=32",
        "--epochs=20",
        "--step-seconds=0.001",
    ]
    with Job(tensorflow_environments(2, 3), flags) as job:
        assert set(job.ends("worker").values()) == {0}
        losses = list(job["worker-0"].losses().values())
    assert losses[0] > 0.6
    assert losses[-1] < 0.35


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_all_tasks_of_an_mxjob_end_with_0(mode: str) -> None:
    environments = mxnet_environments(2, 3)
    with Job(environments, [f"--mode={mode}", "--epochs=3"]) as job:
        assert job.ends("") == dict.fromkeys(environments, 0)
        assert "Traceback" not in "".join(program.text for program in job.programs.values())


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_file_that_gets_content_ends_the_job_for_every_worker(mode: str, tmp_path: Path) -> None:
    stop_file, saved = tmp_path / "goal-met", tmp_path / "checkpoints"
    stop_file.touch()
    flags = [f"--mode={mode}", *_EVERY_STEP, "--step-seconds=0.005"]
    flags += [f"--stop-file={stop_file}", f"--checkpoint-dir={saved}"]
    with Job(tensorflow_environments(2, 2), flags) as job:
        job["worker-0"].wait_for_line(lambda line: "epoch=3 " in line)
        stop_file.write_text("2027-01-15T08:00:00Z")
        assert set(job.ends("worker").values()) == {0}
        text = job["worker-0"].text
    assert f"the goal is met, says {stop_file}: the training ends" in text
    assert list(saved.iterdir()), "it has saved its last step"


def _train_until(folder: Path, step: int) -> tuple[dict[int, float], dict[str, int]]:
    with Job(
        tensorflow_environments(2, 2),
        [*_SLOWLY, "--step-seconds=0.05", f"--checkpoint-dir={folder}"],
    ) as job:
        job["worker-0"].wait_for_line(lambda line: f"step={step} loss" in line)
        codes = job.stop()
        text = "".join(program.text for program in job.programs.values())
        losses = job["worker-0"].losses()
    assert "Traceback" not in text
    return losses, codes


def test_a_stopped_job_loses_no_step_and_goes_on_with_other_counts(
    tmp_path: Path, expected_losses: dict[int, float]
) -> None:
    before, codes = _train_until(tmp_path, 107)
    assert set(codes.values()) == {128 + signal.SIGTERM}
    assert max(before) < _STEPS_OF_20_EPOCHS
    with Job(
        tensorflow_environments(3, 1), [*_EVERY_STEP, "--epochs=20", f"--checkpoint-dir={tmp_path}"]
    ) as job:
        assert job.ends("worker") == {"worker-0": 0}
        newest = max(before)
        assert f"goes on from checkpoint={newest}" in job["worker-0"].text
        assert job["worker-0"].steps() == list(range(newest + 1, _STEPS_OF_20_EPOCHS + 1))
        _assert_as_expected(job["worker-0"], expected_losses)


@cases(
    "victim",
    {
        "a PS that lost its memory: all go back to the checkpoint": "ps-1",
        "a worker that comes back into the step of the others": "worker-1",
        "the worker that keeps the checkpoints": "worker-0",
    },
)
def test_a_killed_task_that_is_started_again_joins_the_others(
    victim: str, tmp_path: Path, expected_losses: dict[int, float]
) -> None:
    with Job(tensorflow_environments(2, 2), [*_SLOWLY, f"--checkpoint-dir={tmp_path}"]) as job:
        job["worker-0"].wait_for_line(lambda line: "checkpoint=50" in line)
        assert job[victim].stop(signal.SIGKILL) == -signal.SIGKILL
        job.start(victim)
        assert set(job.ends("worker").values()) == {0}
        for name in ("worker-0", "worker-1"):
            steps = job[name].steps()
            assert steps[-1] == _STEPS_OF_20_EPOCHS, job[name].text
            _assert_as_expected(job[name], expected_losses)
