"""What is said of a log that cannot be used as it is."""

from tests.unit.progress.reads import pairs, read


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
        assert (
            read(["Epoch[0] Batch [1]\tSpeed: 5 samples/sec\taccuracy=0.1"] * 3).complaint is None
        )

    def test_losses_that_are_no_numbers_are_dropped_and_told(self) -> None:
        texts = [*pairs(1, 3), *(f"step={n} loss=nan" for n in range(4, 9))]
        progress = read(texts)
        assert len(progress.losses) == 3
        assert progress.step == 8
        assert (
            progress.complaint
            == "the last losses in the log are nan or infinite: training may have diverged"
        )

    def test_a_single_nan_is_not_complained_about(self) -> None:
        progress = read([*pairs(1, 3), "step=4 loss=nan", *pairs(5, 6)])
        assert (len(progress.losses), progress.complaint) == (5, None)
