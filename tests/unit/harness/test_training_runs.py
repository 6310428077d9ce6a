"""The checker of training logs finds what it is there to find."""

from collections.abc import Sequence

import pytest

from tests.harness.training_runs import Run, epoch_losses, violations

T = "2026-01-01T00:00:00.000Z "


def run(*lines: str, restarted: bool = False) -> Run:
    return Run("job", restarted, [T + line for line in lines])


FRESH = run(
    "epoch=1 step=1 loss=1.0",
    "epoch=1 step=8 checkpoint=8",
    "epoch=1 step=10 loss=0.9 checkpoint=8",
)


@pytest.mark.parametrize(
    ("later", "found"),
    [
        pytest.param([], "", id="one run alone"),
        pytest.param(
            [run("goes on from checkpoint=8", "epoch=1 step=9 loss=0.9")], "", id="the next step"
        ),
        pytest.param([run("waits for its peers: ps 0")], "", id="a run that never trained"),
        pytest.param(
            [run("goes on from checkpoint=7", "epoch=1 step=8 loss=0.9")],
            "run 2 began at checkpoint 7 with step 8, but checkpoint 8 was complete",
            id="an older checkpoint",
        ),
        pytest.param(
            [run("epoch=1 step=1 loss=1.0")],
            "run 2 began at checkpoint 0 with step 1, but checkpoint 8 was complete",
            id="a fresh start",
        ),
        pytest.param(
            [run("goes on from checkpoint=8", "epoch=1 step=10 loss=0.9")],
            "run 2 began at checkpoint 8 with step 10, which is not the next",
            id="a step that was left out",
        ),
        pytest.param(
            [
                run(
                    "goes on from checkpoint=8",
                    "epoch=1 step=9 loss=0.9",
                    "goes on from checkpoint=6",
                    "epoch=1 step=7 loss=1",
                )
            ],
            "run 2 began at checkpoint 6 with step 7, but checkpoint 8 was complete",
            id="a second start in the same run",
        ),
        pytest.param(
            [run("epoch=2 step=14 loss=0.9", restarted=True)],
            "",
            id="a trainer that joined the others again in its pod",
        ),
    ],
)
def test_training_continues_after_the_newest_checkpoint(later: Sequence[Run], found: str) -> None:
    assert "".join(violations([FRESH, *later], exact=True)) == found


def test_an_asynchronous_trainer_may_see_steps_of_the_others_first() -> None:
    later = run("goes on from checkpoint=8", "epoch=1 step=12 loss=0.9")
    assert not violations([FRESH, later], exact=False)
    assert violations(
        [FRESH, run("goes on from checkpoint=8", "epoch=1 step=8 loss=0.9")], exact=False
    )


def test_the_loss_of_an_epoch_is_the_mean_over_its_steps() -> None:
    first = run("epoch=1 step=1 loss=1.0", "epoch=1 step=4 loss=0.8", "epoch=2 step=6 loss=0.6")
    assert epoch_losses([first]) == pytest.approx({1: (1.0 + 3 * 0.8) / 4, 2: 0.6})
