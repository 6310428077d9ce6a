"""Epochs: where one begins, how long it is, and what holds where the log does not say."""

import pytest

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from tests.cases import cases
from tests.unit.progress.jobs import START, stamped
from tests.unit.progress.reads import DATA, LATER, SYNC, observe, read


class TestEpochs:
    def test_steps_per_epoch_are_learned_from_the_printed_epochs(self) -> None:
        progress = read(
            [f"epoch={(step - 1) // 20 + 1} step={step} loss=1" for step in range(1, 101)]
        )
        assert progress.steps_per_epoch == 20
        assert progress.epoch == 5.0

    def test_an_annotation_overrules_what_is_learned(self) -> None:
        options = LogFormatOptions(mode=TrainingMode.SYNC, steps_per_epoch=50.0)
        progress = read(
            [f"epoch={step // 20} step={step} loss=1" for step in range(1, 101)], options
        )
        assert (progress.steps_per_epoch, progress.epoch) == (50.0, 2.0)

    def test_epochs_that_count_from_zero_and_from_one_mean_the_same(self) -> None:
        zero = read([f"epoch={step // 10} loss={step} step={step + 1}" for step in range(40)])
        one = read([f"epoch={step // 10 + 1} loss={step} step={step + 1}" for step in range(40)])
        assert zero == one

    @cases(
        ("name", "epochs", "per_epoch"),
        {
            "batches after the last Speedometer line are estimated": ("sync_p1w1.w1.log", 3, 26),
            "two workers in sync": ("sync_p2w2.w1.log", 25, 26),
            "Keras prints the length": ("keras_v2.log", 4, 57),
        },
    )
    def test_recorded_logs(self, name: str, epochs: int, per_epoch: int) -> None:
        progress = read((DATA / name).read_text().splitlines())
        assert progress.epoch == epochs
        assert progress.steps_per_epoch == pytest.approx(per_epoch, abs=3)
        assert progress.step == pytest.approx(epochs * per_epoch, rel=0.12)

    def test_workers_in_async_share_an_epoch(self) -> None:
        progress = read(
            (DATA / "keras_v2.log").read_text().splitlines(),
            LogFormatOptions(mode=TrainingMode.ASYNC),
        )
        assert progress.steps_per_epoch == 2 * 57

    def test_a_log_of_whole_epochs_counts_no_steps(self) -> None:
        progress = read(
            [f"Epoch[{n}] Train-cross-entropy={1 / (n + 1)}" for n in range(8)], every=10.0
        )
        assert (progress.epoch, progress.step, progress.steps_per_epoch) == (8.0, None, None)
        assert progress.units_per_epoch == 1.0
        assert progress.samples[0].steps_per_second == pytest.approx(0.1)
        assert len(progress.losses) == 8

    def test_steps_per_epoch_shrink_with_the_workers_where_each_has_its_own_batch(self) -> None:
        options = LogFormatOptions(mode=TrainingMode.SYNC, batch=Batch(16, BatchScope.WORKER))
        log = ProgressLog(options)
        texts = [f"epoch={step // 40} step={step} loss=1" for step in range(121)]
        observe(log, stamped(texts), "1")
        assert log.progress(LATER).steps_per_epoch == 40
        observe(log, stamped(["epoch=3 step=121 loss=1"], start=START + 900), "2", Counts(1, 2))
        assert log.progress(LATER).steps_per_epoch == 20


class TestUnknownBatch:
    """Nothing is known of the batch: work is counted in epochs, in steps of the size that they had
    at first."""

    @staticmethod
    def observe(batch_is_shared: bool) -> ProgressLog:
        log, texts = ProgressLog(SYNC), "Epoch[{}] Batch [{}]/[{}]\tSpeed: 5 samples/sec\tloss=1"
        for run, workers in enumerate([2, 4]):
            length = 100 if batch_is_shared else 200 // workers
            batches = range(9, length, 10)
            lines = [
                texts.format(3 * run + epoch, batch, length)
                for epoch in range(3)
                for batch in batches
            ]
            start = START + 1000.0 * run
            observe(log, stamped(lines, start=start), f"run-{run}", Counts(1, workers))
        return log

    @cases(
        ("batch_is_shared", "speed"),
        {
            "epochs of the same length: the batch is the job's, speeds are as measured": (
                True,
                10.0,
            ),
            "epochs of half the length: each worker has a batch, a step is worth two": (
                False,
                20.0,
            ),
        },
    )
    def test_speeds_are_converted_where_epochs_differ(
        self, batch_is_shared: bool, speed: float
    ) -> None:
        progress = self.observe(batch_is_shared).progress(LATER)
        assert progress.steps_per_epoch == 100
        assert [s.steps_per_second for s in progress.samples] == pytest.approx(
            [10.0, speed], rel=0.01
        )
        assert (progress.epoch, progress.step) == (6.0, 600)

    @cases(
        ("printed", "speeds"),
        {
            "no speed is printed: there is no sample": (" ", [10.0, 20.0]),
            "printed speeds give the examples in a step": ("5 samples/sec", [10.0, 20.0, 10.0 / 2]),
        },
    )
    def test_before_the_end_of_a_runs_first_epoch(self, printed: str, speeds: list[float]) -> None:
        log = self.observe(batch_is_shared=False)
        tail = f"\tSpeed: {printed}" if printed.strip() else " Train-accuracy=0.5"
        lines = [
            f"{'Epoch' if printed.strip() else 'Iter'}[6] Batch [{n * 10}]{tail}" for n in range(9)
        ]
        observe(log, stamped(lines, start=START + 5000), "run-2")
        assert [s.steps_per_second for s in log.progress(LATER).samples] == pytest.approx(
            speeds, rel=0.01
        )


class TestMXNetsEpochLines:
    batches = (
        "Epoch[0] Batch [0-10]\tSpeed: 9.0 samples/sec\tloss=4.0",
        "Epoch[0] Batch [10-20]\tSpeed: 9.0 samples/sec\tloss=2.0",
    )

    def test_with_ranges_of_batches_they_are_the_whole_epochs_means(self) -> None:
        progress = read([*self.batches, "Epoch[0] Train-loss=2.9", "Epoch[0] Time cost=3.0"])
        assert [(point.loss, point.epoch) for point in progress.losses] == [(2.9, 1.0)]

    def test_without_they_are_of_the_batches_since_the_last_line(self) -> None:
        old = [line.replace("[0-10]", "[10]").replace("[10-20]", "[20]") for line in self.batches]
        progress = read([*old, "Epoch[0] Train-loss=1.5", "Epoch[0] Time cost=3.0"])
        assert [point.loss for point in progress.losses] == [4.0, 2.0]

    def test_an_announced_learning_rate_is_that_of_the_losses_that_follow(self) -> None:
        lines = [f"Epoch[{n}] Train-loss={9 - n}" for n in range(6)]
        progress = read([*lines[:4], "Update[41]: Change learning rate to 1.00000e-02", *lines[4:]])
        assert [point.learning_rate for point in progress.losses] == [None] * 4 + [0.01] * 2
