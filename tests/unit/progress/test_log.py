"""The accumulator: duplicates, restores, speeds, checkpoints, complaints, what is stored."""

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.jobs import Batch, BatchScope, Counts, Role, TrainingMode
from scheduling.progress.log import MAX_LOSSES, MAX_STORED_LOSSES, ProgressLog
from scheduling.progress.record import LogLine, LossPoint, RunLook, TrainingProgress
from scheduling.progress.rules import LogRules
from scheduling.progress.state import LogState
from tests.unit.progress.jobs import START, stamped

DATA = Path(__file__).parents[2] / "data" / "logs"
LATER = START + 1e6
SYNC = LogRules(mode=TrainingMode.SYNC)
COUNTS = Counts(1, 2)
GLUON = "Epoch[0] Batch [{}]/[40]\tSpeed: 5 samples/sec\tloss=1"


def read(
    texts: Sequence[str], rules: LogRules = SYNC, *, counts: Counts = COUNTS, every: float = 1.0
) -> TrainingProgress:
    """The progress that worker 0's log tells, one line a second."""
    log = ProgressLog(rules)
    log.observe("job-worker-0", Role.WORKER, 0, counts, stamped(texts, every=every), "run-1")
    return log.progress(LATER)


def pairs(first: int, last: int, every: int = 1, **more: object) -> list[str]:
    """Lines of name=value, the loss falling from 1."""
    rest = "".join(f" {name}={value}" for name, value in more.items())
    return [f"step={step} loss={1 / step:.6f}{rest}" for step in range(first, last + 1, every)]


class TestReadingTwice:
    def test_overlapping_reads_take_each_line_once(self) -> None:
        lines = stamped(pairs(1, 20))
        once, often = ProgressLog(SYNC), ProgressLog(SYNC)
        once.observe("w", Role.WORKER, 0, Counts(1, 1), lines, "r")
        for end in range(1, 21):
            often.observe("w", Role.WORKER, 0, Counts(1, 1), lines[max(end - 4, 0) : end], "r")
        assert often.progress(LATER) == once.progress(LATER)

    def test_lines_of_one_instant_are_told_apart_by_their_text(self) -> None:
        log = ProgressLog(SYNC)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), [LogLine(START, "step=1 loss=3")], "r")
        log.observe(
            "w", Role.WORKER, 0, Counts(1, 1), [LogLine(START, "step=1 loss=3"), LogLine(START, "step=2 loss=2")], "r"
        )
        assert [point.step for point in log.progress(LATER).losses] == [1, 2]

    def test_the_next_read_starts_at_the_last_line(self) -> None:
        log = ProgressLog(SYNC)
        assert log.next_since("w") is None
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(["a", "b", "c"]), "r")
        assert log.next_since("w") == START + 2

    def test_one_event_under_two_prefixes_is_one_point(self) -> None:
        event = "loss = 2.5, step = 100 (0.5 sec)"
        progress = read([f"INFO:tensorflow:{event}", f"I0401 16:50:17.657439 1403 hooks.py:260] {event}"])
        assert [(point.step, point.loss) for point in progress.losses] == [(100, 2.5)]

    def test_lines_of_the_run_before_come_too_late(self) -> None:
        log = ProgressLog(SYNC)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(1, 5)), "old")
        log.observe("w", Role.WORKER, 0, Counts(1, 2), stamped(pairs(6, 9), start=START + 60), "new")
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(6, 8), start=START + 6), "old")
        assert log.progress(LATER).step == 9


class TestGoingBack:
    def test_a_new_run_takes_away_what_came_after_the_checkpoint(self) -> None:
        log = ProgressLog(SYNC)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped([*pairs(1, 17), *pairs(18, 20, checkpoint=15)]), "1")
        log.observe("w", Role.WORKER, 0, Counts(2, 2), stamped(["step=16 loss=9 checkpoint=15"], start=START + 60), "2")
        progress = log.progress(LATER)
        assert [point.step for point in progress.losses] == list(range(1, 17))
        assert progress.losses[-1].loss == 9
        assert (progress.step, progress.checkpoint_step) == (16, 15)

    def test_a_sparse_log_goes_back_to_the_checkpoint_that_its_first_line_names(self) -> None:
        log = ProgressLog(SYNC)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(10, 100, every=10)), "1")
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(90, 90, checkpoint=65), start=START + 60), "2")
        assert [point.step for point in log.progress(LATER).losses] == [10, 20, 30, 40, 50, 60, 90]

    def test_a_container_that_restarts_within_a_run_goes_back_too(self) -> None:
        progress = read([*pairs(1, 10), "step=4 loss=8"])
        assert [point.step for point in progress.losses] == [1, 2, 3, 4]
        assert progress.step == 4

    def test_mxnet_goes_back_to_the_beginning_of_its_epoch(self) -> None:
        speed = "Epoch[{}] Batch [{}]\tSpeed: 5 samples/sec\tloss={}"
        log = ProgressLog(SYNC)
        texts = [speed.format(epoch, batch, 1) for epoch in range(3) for batch in (10, 20)]
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(texts), "1")
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped([speed.format(1, 10, 2)], start=START + 60), "2")
        assert [point.loss for point in log.progress(LATER).losses] == [1, 1, 2]

    def test_a_container_that_restarts_within_an_epoch_is_measured_anew(self) -> None:
        texts = [GLUON.format(batch) for batch in (*range(0, 40, 2), *range(0, 30, 3))]
        progress = read(texts)
        assert progress.step == 28
        assert [point.step for point in progress.losses] == list(range(1, 31, 3))
        assert progress.samples[0].steps_per_second == pytest.approx(3.0)

    def test_a_training_that_starts_over_has_no_checkpoint(self) -> None:
        log = ProgressLog(SYNC)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(1, 20, checkpoint=15)), "1")
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(1, 2), start=START + 60), "2")
        progress = log.progress(LATER)
        assert (progress.step, progress.checkpoint_step, len(progress.losses)) == (2, None, 2)


class TestSpeed:
    def test_global_steps_are_the_jobs_and_are_not_summed_over_pods(self) -> None:
        log = ProgressLog(LogRules(mode=TrainingMode.ASYNC))
        for index in range(3):
            lines = stamped(pairs(1 + index, 200, every=10), every=2.0)
            log.observe(f"w{index}", Role.WORKER, index, Counts(1, 3), lines, "r")
        (sample,) = log.progress(LATER).samples
        assert sample.counts == Counts(1, 3)
        assert sample.steps_per_second == pytest.approx(5.0)

    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            pytest.param(TrainingMode.SYNC, 10.0, id="sync workers tick together"),
            pytest.param(TrainingMode.ASYNC, 40.0, id="async workers add up, two sampled of four"),
        ],
    )
    def test_batches_of_each_worker(self, mode: TrainingMode, expected: float) -> None:
        log = ProgressLog(LogRules(mode=mode))
        texts = [f"Epoch[{n // 5}] Batch [{n % 5 * 20}]/[100]\tSpeed: 640 samples/sec\tloss=1" for n in range(40)]
        for index in range(2):
            log.observe(f"w{index}", Role.WORKER, index, Counts(1, 4), stamped(texts, every=2.0), "r")
        assert log.progress(LATER).samples[0].steps_per_second == pytest.approx(expected, rel=0.01)

    @pytest.mark.parametrize(
        ("mode", "batch", "expected"),
        [
            pytest.param(TrainingMode.SYNC, Batch(64, BatchScope.JOB), 20.0, id="sync, the job's batch is shared"),
            pytest.param(TrainingMode.SYNC, Batch(64, BatchScope.WORKER), 10.0, id="sync, a batch for each worker"),
            pytest.param(TrainingMode.ASYNC, Batch(64, BatchScope.WORKER), 20.0, id="async, workers add up"),
        ],
    )
    def test_printed_samples_per_second_where_lines_come_in_one_lump(
        self, mode: TrainingMode, batch: Batch, expected: float
    ) -> None:
        texts = [f"Epoch[0] Batch [{n}]\tSpeed: {300 if n == 1 else 640} samples/sec\tloss=1" for n in range(1, 6)]
        progress = read(texts, LogRules(mode=mode, batch=batch), every=0.01)
        assert progress.samples[0].steps_per_second == pytest.approx(expected)

    def test_printed_global_steps_per_second_are_the_jobs(self) -> None:
        progress = read(["global_step/sec: 5", *["INFO:tensorflow:global_step/sec: 12.5"] * 4])
        assert progress.samples[0].steps_per_second == 12.5

    def test_warm_up_is_left_out(self) -> None:
        log = ProgressLog(SYNC)
        slow = [LogLine(START, "step=1 loss=1"), LogLine(START + 30, "step=11 loss=1")]
        steady = stamped(pairs(21, 101, every=10), start=START + 32, every=2.0)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), [*slow, *steady], "r")
        assert log.progress(LATER).samples[0].steps_per_second == pytest.approx(5.0)

    def test_a_stall_is_left_out(self) -> None:
        log = ProgressLog(SYNC)
        before, after = stamped(pairs(1, 20)), stamped(pairs(21, 40), start=START + 120)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), [*before, *after], "r")
        assert log.progress(LATER).samples[0].steps_per_second == pytest.approx(1.0)

    def test_lines_that_come_in_lumps_are_measured_from_lump_to_lump(self) -> None:
        lines = [LogLine(START + 10.0 * (n // 10) + n % 10 * 0.001, f"step={n + 1} loss=1") for n in range(80)]
        log = ProgressLog(SYNC)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), lines, "r")
        assert log.progress(LATER).samples[0].steps_per_second == pytest.approx(1.0)

    def test_each_run_gives_a_sample_at_its_counts(self) -> None:
        log = ProgressLog(SYNC)
        for number, counts in enumerate([Counts(1, 1), Counts(2, 3)]):
            first, start = 1 + 30 * number, START + 100.0 * number
            lines = stamped(pairs(first, first + 29), start=start, every=1.0 / (number + 1))
            log.observe("w", Role.WORKER, 0, counts, lines, f"run-{number}")
        speeds = {sample.counts: sample.steps_per_second for sample in log.progress(LATER).samples}
        assert speeds == pytest.approx({Counts(1, 1): 1.0, Counts(2, 3): 2.0})
        assert log.progress(LATER).trained_seconds == pytest.approx(28 + 14)

    def test_no_sample_is_from_the_future(self) -> None:
        log = ProgressLog(SYNC)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(1, 20)), "r")
        assert log.progress(START + 5).samples[0].at == START + 5


class TestEpochs:
    def test_steps_per_epoch_are_learned_from_the_printed_epochs(self) -> None:
        progress = read([f"epoch={(step - 1) // 20 + 1} step={step} loss=1" for step in range(1, 101)])
        assert progress.steps_per_epoch == 20
        assert progress.epoch == 5.0

    def test_an_annotation_overrules_what_is_learned(self) -> None:
        rules = LogRules(mode=TrainingMode.SYNC, steps_per_epoch=50.0)
        progress = read([f"epoch={step // 20} step={step} loss=1" for step in range(1, 101)], rules)
        assert (progress.steps_per_epoch, progress.epoch) == (50.0, 2.0)

    def test_epochs_that_count_from_zero_and_from_one_mean_the_same(self) -> None:
        zero = read([f"epoch={step // 10} loss={step} step={step + 1}" for step in range(40)])
        one = read([f"epoch={step // 10 + 1} loss={step} step={step + 1}" for step in range(40)])
        assert zero == one

    @pytest.mark.parametrize(
        ("name", "epochs", "per_epoch"),
        [
            pytest.param("sync_p1w1.w1.log", 3, 26, id="batches after the last Speedometer line are estimated"),
            pytest.param("sync_p2w2.w1.log", 25, 26, id="two workers in sync"),
            pytest.param("keras_v2.log", 4, 57, id="Keras tells the length"),
        ],
    )
    def test_recorded_logs(self, name: str, epochs: int, per_epoch: int) -> None:
        progress = read((DATA / name).read_text().splitlines())
        assert progress.epoch == epochs
        assert progress.steps_per_epoch == pytest.approx(per_epoch, abs=3)
        assert progress.step == pytest.approx(epochs * per_epoch, rel=0.12)

    def test_workers_in_async_share_an_epoch(self) -> None:
        progress = read((DATA / "keras_v2.log").read_text().splitlines(), LogRules(mode=TrainingMode.ASYNC))
        assert progress.steps_per_epoch == 2 * 57

    def test_a_log_of_whole_epochs_counts_them_as_steps(self) -> None:
        progress = read([f"Epoch[{n}] Train-cross-entropy={1 / (n + 1)}" for n in range(8)], every=10.0)
        assert (progress.epoch, progress.step, progress.steps_per_epoch) == (8.0, 8, 1.0)
        assert progress.samples[0].steps_per_second == pytest.approx(0.1)
        assert len(progress.losses) == 8

    def test_steps_per_epoch_shrink_with_the_workers_where_each_has_its_own_batch(self) -> None:
        rules = LogRules(mode=TrainingMode.SYNC, batch=Batch(16, BatchScope.WORKER))
        log = ProgressLog(rules)
        texts = [f"epoch={step // 40} step={step} loss=1" for step in range(121)]
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(texts), "1")
        assert log.progress(LATER).steps_per_epoch == 40
        log.observe("w", Role.WORKER, 0, Counts(1, 2), stamped(["epoch=3 step=121 loss=1"], start=START + 900), "2")
        assert log.progress(LATER).steps_per_epoch == 20


class TestUnknownBatch:
    """Nothing is known of the batch: work is counted in epochs, in steps of the size that they had at first."""

    @staticmethod
    def observe(batch_is_shared: bool) -> ProgressLog:
        log, texts = ProgressLog(SYNC), "Epoch[{}] Batch [{}]/[{}]\tSpeed: 5 samples/sec\tloss=1"
        for run, workers in enumerate([2, 4]):
            length = 100 if batch_is_shared else 200 // workers
            batches = range(9, length, 10)
            lines = [texts.format(3 * run + epoch, batch, length) for epoch in range(3) for batch in batches]
            start = START + 1000.0 * run
            log.observe("w", Role.WORKER, 0, Counts(1, workers), stamped(lines, start=start), f"run-{run}")
        return log

    @pytest.mark.parametrize(
        ("batch_is_shared", "speed"),
        [
            pytest.param(True, 10.0, id="epochs of the same length: the batch is the job's, speeds are as measured"),
            pytest.param(False, 20.0, id="epochs of half the length: each worker has a batch, a step is worth two"),
        ],
    )
    def test_speeds_are_converted_where_epochs_differ(self, batch_is_shared: bool, speed: float) -> None:
        progress = self.observe(batch_is_shared).progress(LATER)
        assert progress.steps_per_epoch == 100
        assert [s.steps_per_second for s in progress.samples] == pytest.approx([10.0, speed], rel=0.01)
        assert (progress.epoch, progress.step) == (6.0, 600)

    @pytest.mark.parametrize(
        ("printed", "speeds"),
        [
            pytest.param(" ", [10.0, 20.0], id="no speed is printed: there is no sample"),
            pytest.param("5 samples/sec", [10.0, 20.0, 10.0 / 2], id="printed speeds tell the examples in a step"),
        ],
    )
    def test_before_the_end_of_a_runs_first_epoch(self, printed: str, speeds: list[float]) -> None:
        log = self.observe(batch_is_shared=False)
        tail = f"\tSpeed: {printed}" if printed.strip() else " Train-accuracy=0.5"
        lines = [f"{'Epoch' if printed.strip() else 'Iter'}[6] Batch [{n * 10}]{tail}" for n in range(9)]
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(lines, start=START + 5000), "run-2")
        assert [s.steps_per_second for s in log.progress(LATER).samples] == pytest.approx(speeds, rel=0.01)


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
        log = ProgressLog(LogRules(mode=TrainingMode.ASYNC))
        log.observe("w1", Role.WORKER, 1, Counts(1, 2), stamped(["step=2 loss=7", "step=4 loss=7"]), "r")
        log.observe("w0", Role.WORKER, 0, Counts(1, 2), stamped(["step=1 loss=5", "step=3 loss=5"]), "r")
        log.observe("w1", Role.WORKER, 1, Counts(1, 2), stamped(["step=6 loss=7"], start=START + 9), "r")
        assert [(point.step, point.loss) for point in log.progress(LATER).losses] == [(1, 5), (3, 5)]

    def test_a_chief_that_prints_no_loss_leaves_it_to_worker_0(self) -> None:
        log = ProgressLog(LogRules(mode=TrainingMode.ASYNC))
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
    def test_roles_that_do_not_train_are_not_listened_to(self, role: Role) -> None:
        log = ProgressLog(SYNC)
        log.observe("pod", role, 0, Counts(1, 1), stamped(pairs(1, 5)), "r")
        assert log.progress(LATER) == TrainingProgress()

    def test_many_losses_are_thinned_and_keep_their_epoch_means(self) -> None:
        steps = range(1, 5001)
        progress = read(
            [f"epoch={(step - 1) // 50} step={step} loss={step % 7}" for step in steps], LogRules(SYNC.mode, None, 50.0)
        )
        assert len(progress.losses) <= MAX_LOSSES
        assert sum(point.weight for point in progress.losses) == 5000
        mean = sum(point.loss * point.weight for point in progress.losses) / 5000
        assert mean == pytest.approx(sum(step % 7 for step in steps) / 5000)

    def test_more_epochs_than_are_kept_are_averaged_over_epochs(self) -> None:
        progress = read([f"Epoch[{n}] Train-loss={n % 5}" for n in range(3000)])
        assert len(progress.losses) <= MAX_LOSSES
        assert progress.losses[-1] == LossPoint(4.0, 3000.0, 3000)
        assert sum(point.weight for point in progress.losses) == 3000


class TestCheckpoints:
    @pytest.mark.parametrize(
        ("texts", "step", "second"),
        [
            pytest.param(pairs(1, 5, checkpoint=3), 3, 0, id="named on every line: known since the first"),
            pytest.param(
                ["step=1 loss=1", "Calling checkpoint listeners after saving checkpoint 1...", "step=2 loss=1"], 1, 1,
                id="TensorFlow's line after the save",
            ),
            pytest.param(
                ["step=7 loss=1", "Saving checkpoints for 7 into /ck.", "step=8 loss=1"], 7, 2,
                id="a save that begins is complete at the next sign of training",
            ),
            pytest.param(["step=7 loss=1", "Saving checkpoints for 7 into /ck."], None, None, id="a save that begins"),
            pytest.param(["Saving checkpoints for 0 into /ck.", "step=1 loss=1"], None, None, id="of step 0"),
            pytest.param(
                [GLUON.format(20), GLUON.format(40), 'Saved checkpoint to "/m-0001.params"'], 40, 2,
                id="MXNet's number is of epochs",
            ),
            pytest.param(
                [GLUON.format(20), GLUON.format(30), "params saved in: ./x.params"], 31, 2,
                id="without a number: where training stands",
            ),
            pytest.param(
                ["step=40 epoch=0 loss=1", 'Saved checkpoint to "/m-0040.params"'], 40, 1,
                id="a script that numbers MXNet's checkpoints by steps",
            ),
        ],
    )  # fmt: skip
    def test_are_known_once_complete(self, texts: list[str], step: int | None, second: int | None) -> None:
        progress = read(texts)
        assert progress.checkpoint_step == step
        assert progress.checkpoint_at == (None if second is None else START + second)


class TestComplaints:
    def test_a_log_without_a_loss_says_which_annotation_helps(self) -> None:
        texts = [f"Epoch[0] Batch [{n}]\tSpeed: 5 samples/sec\taccuracy=0.1" for n in range(40)]
        complaint = read(texts).complaint
        assert complaint is not None
        assert "optimus.dl/loss-metric" in complaint
        assert "accuracy" in complaint

    def test_a_log_of_unknown_lines_is_complained_about(self) -> None:
        complaint = read([f"iteration {n} done" for n in range(300)]).complaint
        assert complaint is not None
        assert "more than 200 log lines" in complaint

    def test_a_short_log_is_not_complained_about(self) -> None:
        assert read(["Epoch[0] Batch [1]\tSpeed: 5 samples/sec\taccuracy=0.1"] * 3).complaint is None

    def test_losses_that_are_no_numbers_are_dropped_and_told(self) -> None:
        texts = [*pairs(1, 3), *(f"step={n} loss=nan" for n in range(4, 9))]
        progress = read(texts)
        assert len(progress.losses) == 3
        assert progress.step == 8
        assert progress.complaint == "the last losses in the log are nan or infinite: training may have diverged"

    def test_a_single_nan_is_not_complained_about(self) -> None:
        progress = read([*pairs(1, 3), "step=4 loss=nan", *pairs(5, 6)])
        assert (len(progress.losses), progress.complaint) == (5, None)


class TestStorage:
    @pytest.mark.parametrize("name", ["sync_p2w2.w1.log", "keras_v2.log", "mxnet-sync-before-worker-0.log"])
    @pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
    def test_goes_on_from_a_stored_state_as_if_nothing_had_happened(self, name: str, cut: float) -> None:
        lines = stamped((DATA / name).read_text().splitlines())
        half = round(len(lines) * cut)
        whole, log = ProgressLog(SYNC), ProgressLog(SYNC)
        whole.observe("w", Role.WORKER, 0, Counts(2, 2), lines, "r")
        log.observe("w", Role.WORKER, 0, Counts(2, 2), lines[:half], "r")
        stored = msgspec.json.encode(log.to_state())
        again = ProgressLog.from_state(SYNC, msgspec.json.decode(stored, type=LogState))
        again.observe("w", Role.WORKER, 0, Counts(2, 2), lines[half:], "r")
        assert again.progress(LATER) == whole.progress(LATER)

    def test_what_is_stored_is_bounded(self) -> None:
        log = ProgressLog(SYNC)
        for run in range(100):
            lines = stamped(pairs(1 + run * 100, 100 + run * 100), start=START + run * 1000.0)
            for index in range(10):
                log.observe(f"w{index}", Role.WORKER, index, Counts(1, 10), lines, f"run-{run}")
        state = log.to_state()
        assert len(state.losses) <= MAX_STORED_LOSSES
        assert len(msgspec.json.encode(state)) < 60_000

    def test_a_state_is_a_copy(self) -> None:
        log = ProgressLog(SYNC)
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(1, 5)), "r")
        state = log.to_state()
        log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped(pairs(6, 9), start=START + 60), "r")
        assert state.step == 5


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


def test_all_losses_are_kept_where_that_is_asked_for() -> None:
    log = ProgressLog(SYNC, max_losses=10_000)
    log.observe("w", Role.WORKER, 0, Counts(1, 1), stamped([f"Epoch[{n}] Train-loss=1" for n in range(3000)]), "r")
    assert len(log.progress(LATER).losses) == 3000


def recorded(name: str) -> list[LogLine]:
    """A log whose lines begin with the time, which is taken as the kubelet's."""
    texts = (DATA / "light" / name).read_text().splitlines()
    stamps = (datetime.fromisoformat(text.split(" ", 1)[0]).timestamp() for text in texts)
    return [LogLine(at, text) for at, text in zip(stamps, texts, strict=True)]


def test_a_real_job_through_five_runs() -> None:
    log = ProgressLog(LogRules(mode=TrainingMode.SYNC, batch=Batch(64, BatchScope.JOB)))
    speeds = {Counts(1, 2): 2.42, Counts(1, 1): 2.04, Counts(3, 1): 2.25, Counts(1, 4): 1.99, Counts(4, 4): 3.64}
    for run, counts in enumerate(speeds):
        lines = recorded(f"sync-r{run}-p{counts.ps}w{counts.workers}.log")
        log.observe("light-worker-0", Role.WORKER, 0, counts, lines, f"run-{run}")
    progress = log.progress(LATER)
    assert {sample.counts: sample.steps_per_second for sample in progress.samples} == pytest.approx(speeds, rel=0.02)
    assert progress.steps_per_epoch == pytest.approx(20, rel=0.05)
    steps = [point.step for point in progress.losses]
    assert steps == sorted(set(steps), key=lambda step: step or 0)
    assert progress.complaint is None


@pytest.mark.parametrize(
    ("kind", "lead", "mode", "restored", "last", "per_epoch"),
    [
        pytest.param("mxnet-sync", "worker-0", TrainingMode.SYNC, 160, 260, 50, id="MXNet, dist_sync"),
        pytest.param("mxnet-async", "worker-0", TrainingMode.ASYNC, 160, 398, 100, id="MXNet, dist_async"),
        pytest.param("tensorflow", "chief-0", TrainingMode.ASYNC, 120, 260, 100, id="TensorFlow, parameter servers"),
    ],
)
def test_a_real_framework_through_a_rescale(
    kind: str, lead: str, mode: TrainingMode, restored: int, last: int, per_epoch: int
) -> None:
    role = Role.CHIEF if lead.startswith("chief") else Role.WORKER
    log = ProgressLog(LogRules(mode=mode))
    before = (DATA / f"{kind}-before-{lead}.log").read_text().splitlines()
    resumed = (DATA / f"{kind}-resumed-{lead}.log").read_text().splitlines()
    log.observe(lead, role, 0, Counts(1, 2), stamped(before, every=0.1), "before")
    assert log.progress(LATER).checkpoint_step == restored
    ended = log.progress(LATER).step or 0
    assert ended > restored
    log.observe(lead, role, 0, Counts(2, 3), stamped(resumed[:6], start=START + 300, every=0.1), "resumed")
    assert max(point.step or 0 for point in log.progress(LATER).losses) < ended
    log.observe(lead, role, 0, Counts(2, 3), stamped(resumed, start=START + 300, every=0.1), "resumed")
    progress = log.progress(LATER)
    steps = [point.step or 0 for point in progress.losses]
    assert steps == sorted(set(steps))
    assert restored + 1 in steps
    assert progress.step == last
    assert progress.steps_per_epoch == pytest.approx(per_epoch, rel=0.03)
    assert {sample.counts for sample in progress.samples} == {(1, 2), (2, 3)}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_how_a_log_is_cut_into_reads_does_not_matter(data: st.DataObject) -> None:
    """Reads overlap, the autoscaler restarts in between, and the progress is that of one single read."""
    count = data.draw(st.integers(1, 60))
    steps = data.draw(st.lists(st.integers(1, 9) | st.integers(-30, -1), min_size=count, max_size=count))
    places = [max(sum(steps[: n + 1]), 1) for n in range(count)]
    texts = [f"epoch={place // 20} step={place} loss={1 / place + n % 3}" for n, place in enumerate(places)]
    lines = stamped(texts, every=data.draw(st.sampled_from([0.1, 0.5, 3.0])))
    whole = ProgressLog(SYNC)
    whole.observe("w", Role.WORKER, 0, Counts(1, 1), lines, "r")
    log, end = ProgressLog(SYNC), 0
    while end < count:
        since = log.next_since("w")
        end += data.draw(st.integers(1, 20))
        seen = [line for line in lines[:end] if since is None or line.at >= int(since)]
        log.observe("w", Role.WORKER, 0, Counts(1, 1), seen, "r")
        if data.draw(st.booleans()):
            log = ProgressLog.from_state(SYNC, msgspec.convert(msgspec.to_builtins(log.to_state()), LogState))
    assert log.progress(LATER) == whole.progress(LATER)


SHAPES = (
    "step={0} loss={0}",
    "Epoch[{0}] Batch [{0}]\tSpeed: {0} samples/sec\tloss={0}",
    "Epoch {0}/9",
    "{0}/{0} - 1s - loss: {0}",
    "Epoch[{0}] Train-loss={0}",
    "Saving checkpoints for {0} into x",
    "loss = {0}, step = {0}",
    "global_step/sec: {0}",
    'Saved checkpoint to "a-{0}.params"',
)
VALUES = ("0", "1", "7", "0040", "9" * 15, "9" * 40, "1e308", "nan", "-1", "x")
LINES = st.one_of(st.text(), st.builds(str.format, st.sampled_from(SHAPES), st.sampled_from(VALUES)))


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1e10), LINES, st.integers(0, 2)), max_size=30))
def test_no_line_can_break_the_log(lines: list[tuple[float, str, int]]) -> None:
    log = ProgressLog(SYNC)
    for at, text, pod in lines:
        log.observe(f"w{pod}", Role.WORKER, pod, Counts(1, 2), [LogLine(at, text)], "r")
    progress = log.progress(LATER)
    msgspec.json.decode(msgspec.json.encode(log.to_state()), type=LogState)
    assert all(sample.steps_per_second > 0 for sample in progress.samples)


class TestKindsOfNodes:
    @staticmethod
    def runs(*kinds: str | None, log: ProgressLog | None = None, first: int = 0) -> ProgressLog:
        """Half a minute of training on each kind of node, one run after the other."""
        log = log or ProgressLog(SYNC)
        for run, kind in enumerate(kinds, first):
            lines = stamped(pairs(30 * run + 1, 30 * run + 30), start=START + 100 * run)
            log.observe("w", Role.WORKER, 0, Counts(1, 1 + run), lines, RunLook(f"run-{run}", kind))
        return log

    @pytest.mark.parametrize(
        ("told", "known", "now"),
        [
            pytest.param([None, None], ["", ""], None, id="nobody looks: as if there were no kinds"),
            pytest.param(["", ""], ["", ""], "", id="nodes without the label are of one kind"),
            pytest.param(["fast", "slow"], ["fast", "slow"], "slow", id="each run's sample bears its own kind"),
            pytest.param(["fast", ""], ["fast", ""], "", id="a run on nodes without the label after one with it"),
            pytest.param(["", "fast"], ["", "fast"], "fast", id="a run on labelled nodes after one without"),
            pytest.param([None, "fast"], ["fast", "fast"], "fast", id="what was stored before anybody looked"),
        ],
    )
    def test_samples_say_on_which_kind_they_were_measured(
        self, told: list[str | None], known: list[str], now: str | None
    ) -> None:
        progress = self.runs(*told).progress(LATER)
        assert ([sample.node_kind for sample in progress.samples], progress.node_kind) == (known, now)

    def test_a_node_that_is_gone_does_not_make_its_runs_kind_unknown(self) -> None:
        log = self.runs("fast")
        log.observe(
            "w", Role.WORKER, 0, Counts(1, 1), stamped(["step=31 loss=1"], start=START + 30), RunLook("run-0", "")
        )
        assert log.progress(LATER).node_kind == "fast"

    def test_what_an_earlier_release_stored_is_read(self) -> None:
        stored = msgspec.to_builtins(self.runs(None, None).to_state())
        del stored["node_kind"]
        for sample in stored["samples"]:
            del sample["node_kind"]
        log = ProgressLog.from_state(SYNC, msgspec.convert(stored, LogState))
        progress = self.runs("fast", log=log, first=2).progress(LATER)
        assert [sample.node_kind for sample in progress.samples] == ["fast"] * 3

    def test_the_kind_is_stored(self) -> None:
        stored = msgspec.convert(msgspec.to_builtins(self.runs("fast", "slow").to_state()), LogState)
        assert ProgressLog.from_state(SYNC, stored).progress(LATER) == self.runs("fast", "slow").progress(LATER)


def served(lines: Sequence[LogLine], since: float | None) -> list[LogLine]:
    """As a kubelet answers: from a whole second on, in the order in which they were printed."""
    return [line for line in lines if since is None or line.at >= int(since)]


class TestClocks:
    """The kubelet's clock stamps the lines, the reader's says when they were read: every ten seconds."""

    @staticmethod
    def polled(stamp: Callable[[int], float], steps: int = 300) -> ProgressLog:
        """A step a second, of which the kubelet says that it was printed at another instant."""
        log = ProgressLog(SYNC)
        printed = [LogLine(stamp(step), f"step={step} loss={1 / step:.6f}") for step in range(1, steps + 1)]
        for now in range(10, steps + 10, 10):
            lines = served(printed[:now], log.next_since("w"))
            log.observe("w", Role.WORKER, 0, Counts(1, 1), lines, RunLook("r", read_at=START + now))
        return log

    @pytest.mark.parametrize(
        "stamp",
        [
            pytest.param(lambda step: START + step, id="the same clock"),
            pytest.param(lambda step: START + step + (7200 if step == 95 else 0), id="ahead for one line"),
            pytest.param(lambda step: START + step + (7200 if step < 95 else 0), id="ahead, then set right"),
            pytest.param(lambda step: START + step + (7200 if 35 < step < 95 else 0), id="ahead for a minute"),
            pytest.param(lambda step: START + step + (7200 if step > 95 else 0), id="ahead from then on"),
            pytest.param(lambda step: START + step + 7200, id="always ahead"),
            pytest.param(lambda step: START + step - 7200, id="always behind"),
            pytest.param(lambda step: START + step - (40 if step > 95 else 0), id="set back a little"),
        ],
    )
    def test_no_clock_mutes_a_log_or_repeats_it(self, stamp: Callable[[int], float]) -> None:
        log = self.polled(stamp)
        progress = log.progress(LATER)
        steps = [point.step or 0 for point in progress.losses]
        assert steps == sorted(set(steps))
        assert steps[-1] == 300
        assert len(steps) > 240, "a line or a read may be lost when a clock is set, no more"

    def test_a_speed_survives_a_line_from_the_future(self) -> None:
        (sample,) = self.polled(lambda step: START + step + (7200 if step == 95 else 0)).progress(LATER).samples
        assert sample.steps_per_second == pytest.approx(1.0, rel=0.02)

    @pytest.mark.parametrize("skew", [0, 7200, -7200], ids=["the same clock", "ahead", "behind"])
    def test_a_checkpoint_is_younger_than_the_read_that_did_not_show_it(self, skew: float) -> None:
        log = ProgressLog(SYNC)
        for read_at, line in [(10, "step=1 loss=1"), (20, "step=2 loss=1"), (620, "step=3 loss=1 checkpoint=3")]:
            lines = [LogLine(START + read_at + skew - 1, line)]
            log.observe("w", Role.WORKER, 0, Counts(1, 1), lines, RunLook("r", read_at=START + read_at))
        for read_at in (630, 640):  # nothing new is printed: the checkpoint grows old
            log.observe("w", Role.WORKER, 0, Counts(1, 1), [], RunLook("r", read_at=START + read_at))
        assert log.progress(LATER).checkpoint_since == START + 20

    def test_another_pods_read_does_not_make_a_checkpoint_younger(self) -> None:
        log = ProgressLog(SYNC)
        log.observe("w0", Role.WORKER, 0, Counts(1, 2), [], RunLook("r", read_at=START))
        log.observe("w1", Role.WORKER, 1, Counts(1, 2), [], RunLook("r", read_at=START + 600))
        lines = [LogLine(START + 100, "step=5 loss=1 checkpoint=5")]
        log.observe("w0", Role.WORKER, 0, Counts(1, 2), lines, RunLook("r", read_at=START + 610))
        assert log.progress(LATER).checkpoint_since == START

    @pytest.mark.parametrize(("stamp", "since"), [(-100, -100), (7200, 0)], ids=["of late", "from the future"])
    def test_of_the_first_read_the_kubelets_clock_tells_the_age(self, stamp: float, since: float) -> None:
        log = ProgressLog(SYNC)
        lines = [LogLine(START + stamp, "step=5 loss=1 checkpoint=5")]
        log.observe("w", Role.WORKER, 0, Counts(1, 1), lines, RunLook("r", read_at=START))
        assert log.progress(LATER).checkpoint_since == START + since
