"""The end-to-end tests' own reading of what the framework examples print."""

import pytest

from tests.e2e.frameworks.trainer_log import TrainerLog, job_losses, steps_per_second

AT = "2026-11-21T05:04:{:02}.500000001Z"


def log(*lines: str, pod: str = "worker-0") -> TrainerLog:
    return TrainerLog(
        pod, "".join(f"{AT.format(second)} {line}\n" for second, line in enumerate(lines))
    )


@pytest.mark.parametrize(
    ("lines", "losses", "checkpoints"),
    [
        pytest.param(
            [
                "step=161 epoch=3 loss=1.183407",
                'INFO:root:Saved checkpoint to "/checkpoints/m/model-0200.params"',
            ],
            {161: 1.183407},
            (200,),
            id="MXNet",
        ),
        pytest.param(
            ["epoch=2 step=160 loss=1.170443", "epoch=2 step=160 loss=1.170443 checkpoint=160"],
            {160: 1.170443},
            (160,),
            id="TensorFlow",
        ),
        pytest.param(
            [
                'INFO:root:Resumed from "/c/model-0160.params" of step 160: the next step is 161',
                "serving as worker 0",
            ],
            {},
            (),
            id="lines of another kind",
        ),
    ],
)
def test_the_records_of_a_log(
    lines: list[str], losses: dict[int, float], checkpoints: tuple[int, ...]
) -> None:
    read = log(*lines)
    assert (read.losses, read.checkpoints) == (losses, checkpoints)


def test_a_line_that_is_still_being_written_is_left_out() -> None:
    assert TrainerLog("worker-0", AT.format(1) + " step=1 epoch=0 loss=2.3").steps == ()


def test_the_jobs_loss_is_the_mean_over_the_pods_that_print_one() -> None:
    first, second = (
        log("step=1 epoch=0 loss=2.0", "step=3 epoch=0 loss=1.0"),
        log("step=1 epoch=0 loss=4.0"),
    )
    assert job_losses([first, second]) == {1: 3.0, 3: 1.0}


def test_the_speed_is_that_of_the_steps_numbers() -> None:
    read = log(*[f"step={4 * number} epoch=0 loss=1.0" for number in range(10)])
    assert steps_per_second(read) == pytest.approx(4.0)
