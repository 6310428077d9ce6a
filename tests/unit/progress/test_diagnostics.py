"""The diagnostics of a log that cannot be used as it is."""

from tests.unit.progress.reads import pairs, read


class TestDiagnostics:
    def test_a_log_without_a_loss_says_which_annotation_helps(self) -> None:
        texts = [f"Epoch[0] Batch [{n}]\tSpeed: 5 samples/sec\taccuracy=0.1" for n in range(40)]
        diagnostic = read(texts).diagnostic
        assert diagnostic is not None
        assert "optimus.dl/loss-metric" in diagnostic
        assert "accuracy" in diagnostic

    def test_an_error_rate_in_place_of_a_loss_is_named_with_its_annotation(self) -> None:
        form = "Epoch[0] Batch [{}]\tSpeed: 5 samples/sec\taccuracy=0.1\ttop1-err=0.9"
        diagnostic = read([form.format(n) for n in range(40)]).diagnostic
        assert diagnostic is not None
        assert diagnostic.endswith("optimus.dl/loss-metric: top1-err")

    def test_a_log_of_unknown_lines_gets_a_diagnostic(self) -> None:
        diagnostic = read([f"iteration {n} done" for n in range(300)]).diagnostic
        assert diagnostic is not None
        assert "more than 200 log lines" in diagnostic

    def test_a_short_log_gets_no_diagnostic(self) -> None:
        assert (
            read(["Epoch[0] Batch [1]\tSpeed: 5 samples/sec\taccuracy=0.1"] * 3).diagnostic is None
        )

    def test_losses_that_are_no_numbers_are_dropped_with_a_diagnostic(self) -> None:
        texts = [*pairs(1, 3), *(f"step={n} loss=nan" for n in range(4, 9))]
        progress = read(texts)
        assert len(progress.losses) == 3
        assert progress.step == 8
        assert (
            progress.diagnostic
            == "the last losses in the log are nan or infinite: training may have diverged"
        )

    def test_a_single_nan_gets_no_diagnostic(self) -> None:
        progress = read([*pairs(1, 3), "step=4 loss=nan", *pairs(5, 6)])
        assert (len(progress.losses), progress.diagnostic) == (5, None)

    def test_steps_that_begin_again_without_an_epoch_are_said_to(self) -> None:
        epoch = [f"step={n} loss={1 / n:.3f}" for n in range(10, 60, 10)]
        assert read(epoch * 2).diagnostic is None  # it may have been restored
        diagnostic = read(epoch * 3).diagnostic
        assert diagnostic is not None
        assert "steps begin again" in diagnostic
        assert "print the epoch" in diagnostic

    def test_restores_from_different_steps_are_no_epochs(self) -> None:
        texts = [text for last in (50, 80, 120) for text in pairs(1, last)]
        assert read(texts).diagnostic is None

    def test_steps_that_begin_again_beside_their_epoch_are_understood(self) -> None:
        texts = [f"epoch={e} step={n} loss=0.5" for e in range(4) for n in range(10, 60, 10)]
        assert read(texts).diagnostic is None
