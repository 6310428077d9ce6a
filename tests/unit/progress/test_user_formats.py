"""Formats that a job's user names: of the loss, of metrics, of checkpoints."""

from optimus.progress.formats import parse_line
from optimus.progress.parsed_line import LogFormatOptions, SavedCheckpoint
from tests.unit.progress.jobs import job


def _options(
    metrics_format: str | None = None, checkpoint_format: str | None = None
) -> LogFormatOptions:
    return LogFormatOptions.of(
        job(metrics_format=metrics_format, checkpoint_format=checkpoint_format)
    )


class TestUsersOwnFormats:
    def test_a_named_metric_is_the_loss_instead_of_the_usual_one(self) -> None:
        parsed_line = parse_line("step=3 loss=9 xent=0.5", LogFormatOptions(loss_metric="xent"))
        assert parsed_line is not None
        assert parsed_line.loss == 0.5

    def test_a_metrics_format_finds_colon_pairs(self) -> None:
        options = _options(metrics_format=r"(\w+): ([\d.]+)")
        parsed_line = parse_line("done | step: 12 | loss: 0.75", options)
        assert parsed_line is not None
        assert (parsed_line.step, parsed_line.loss) == (12, 0.75)

    def test_a_metrics_format_decides_the_loss_of_known_lines_too(self) -> None:
        options = _options(metrics_format=r"(\w+): ([\d.]+)")
        parsed_line = parse_line("Epoch[1] Batch [20]\tSpeed: 5 samples/sec\tloss=3", options)
        assert parsed_line is not None
        assert (parsed_line.batch, parsed_line.loss) == (21, None)

    def test_a_value_that_is_no_number_is_skipped(self) -> None:
        assert parse_line("loss: high", _options(metrics_format=r"(\w+): (\w+)")) is None

    def test_a_checkpoint_format_leaves_other_lines_as_they_are(self) -> None:
        options = _options(checkpoint_format="model written")
        assert parse_line("step=3 loss=2", options) == parse_line(
            "step=3 loss=2", LogFormatOptions()
        )

    def test_a_checkpoint_format_with_a_group_gives_the_step(self) -> None:
        parsed_line = parse_line(
            "wrote weights of 120 steps",
            _options(checkpoint_format=r"wrote weights of (\d+) steps"),
        )
        assert parsed_line is not None
        assert parsed_line.saved == SavedCheckpoint(step=120)

    def test_a_checkpoint_format_without_a_group_means_the_current_position(self) -> None:
        parsed_line = parse_line("model written", _options(checkpoint_format="model written"))
        assert parsed_line is not None
        assert parsed_line.saved == SavedCheckpoint()
