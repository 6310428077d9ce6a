"""Losses: from whom, at which step, and how many are kept."""

import pytest

from optimus.jobs import Counts, Role, TrainingMode
from optimus.progress.log import MAX_LOSSES, ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LossPoint, TrainingProgress
from tests.unit.progress.jobs import START, stamped
from tests.unit.progress.reads import LATER, SYNC, pairs, read


class TestLosses:
    def test_the_epochs_own_line_is_not_counted_on_top_of_its_batches(self) -> None:
        texts = [
            "Epoch[0] Batch [10]\tSpeed: 5 samples/sec\tloss=2",
            "Epoch[0] Batch [20]\tSpeed: 5 samples/sec\tloss=1",
            "Epoch[0] Train-loss=1.2",
            "Epoch[0] Time cost=4",
        ]
        assert [point.loss for point in read(texts).losses] == [2, 1]

    def test_a_mean_since_the_epoch_began_replaces_the_ones_before(self) -> None:
        texts = [
            "Epoch 1/9",
            *(f"{n}/30 - 1s - loss: {9 - n / 10}" for n in (10, 20, 30)),
            "Epoch 2/9",
            "10/30 - 1s - loss: 5",
        ]
        assert [point.loss for point in read(texts).losses] == [6.0, 5.0]

    def test_bars_of_an_evaluation_are_not_training(self) -> None:
        texts = [
            "Epoch 1/9",
            "30/30 - 1s - loss: 6",
            "8/8 - 0s - loss: 1",
            "Epoch 2/9",
            "15/30 - 1s - loss: 5",
            "8/8 - 0s - loss: 1",
        ]
        assert [point.loss for point in read(texts).losses] == [6, 5]

    def test_losses_come_from_the_chief_or_else_worker_0(self) -> None:
        log = ProgressLog(LogFormatOptions(mode=TrainingMode.ASYNC))
        log.observe(
            "w1", Role.WORKER, 1, Counts(1, 2), stamped(["step=2 loss=7", "step=4 loss=7"]), "r"
        )
        log.observe(
            "w0", Role.WORKER, 0, Counts(1, 2), stamped(["step=1 loss=5", "step=3 loss=5"]), "r"
        )
        log.observe(
            "w1", Role.WORKER, 1, Counts(1, 2), stamped(["step=6 loss=7"], start=START + 9), "r"
        )
        assert [(point.step, point.loss) for point in log.progress(LATER).losses] == [
            (1, 5),
            (3, 5),
        ]

    def test_a_chief_that_prints_no_loss_leaves_it_to_worker_0(self) -> None:
        log = ProgressLog(LogFormatOptions(mode=TrainingMode.ASYNC))
        log.observe("w0", Role.WORKER, 0, Counts(1, 1), stamped(pairs(1, 5)), "r")
        log.observe(
            "chief",
            Role.CHIEF,
            0,
            Counts(1, 1),
            stamped(["1511111111.1: Worker 0: training step 1 done (global step: 9)"]),
            "r",
        )
        progress = log.progress(LATER)
        assert (progress.step, len(progress.losses)) == (5, 5)

    @pytest.mark.parametrize("role", [Role.PS, Role.SCHEDULER, Role.EVALUATOR])
    def test_roles_that_do_not_train_are_ignored(self, role: Role) -> None:
        log = ProgressLog(SYNC)
        log.observe("pod", role, 0, Counts(1, 1), stamped(pairs(1, 5)), "r")
        assert log.progress(LATER) == TrainingProgress()

    def test_many_losses_are_thinned_and_keep_their_epoch_means(self) -> None:
        steps = range(1, 5001)
        progress = read(
            [f"epoch={(step - 1) // 50} step={step} loss={step % 7}" for step in steps],
            LogFormatOptions(SYNC.mode, None, 50.0),
        )
        assert len(progress.losses) <= MAX_LOSSES
        assert sum(point.weight for point in progress.losses) == 5000
        mean = sum(point.loss * point.weight for point in progress.losses) / 5000
        assert mean == pytest.approx(sum(step % 7 for step in steps) / 5000)

    def test_more_epochs_than_are_kept_are_averaged_over_epochs(self) -> None:
        progress = read([f"Epoch[{n}] Train-loss={n % 5}" for n in range(3000)])
        assert len(progress.losses) <= MAX_LOSSES
        assert progress.losses[-1] == LossPoint(4.0, 3000.0)
        assert sum(point.weight for point in progress.losses) == 3000


def test_all_losses_are_kept_where_that_is_asked_for() -> None:
    log = ProgressLog(SYNC, max_losses=10_000)
    log.observe(
        "w",
        Role.WORKER,
        0,
        Counts(1, 1),
        stamped([f"Epoch[{n}] Train-loss=1" for n in range(3000)]),
        "r",
    )
    assert len(log.progress(LATER).losses) == 3000
