"""``optimus forecast`` of a log whose last losses are no numbers, and of a goal out of reach."""

import json
import math
from pathlib import Path

import pytest

from optimus.cli.main import main
from tests.cases import cases

LOSSES = [f"epoch={n} loss={0.2 + 1.8 / (1 + n / 15):.4f}" for n in range(120)]


def forecast(
    tmp_path: Path, printed: pytest.CaptureFixture[str], lines: list[str], *options: str
) -> tuple[str, dict[str, object]]:
    """The command's sentences, and its answer for programs."""
    log = tmp_path / "log"
    log.write_text("\n".join(lines))
    assert main(["forecast", str(log), *options]) == 0
    text = printed.readouterr().out
    assert main(["forecast", str(log), *options, "--json"]) == 0
    return text, json.loads(printed.readouterr().out)


@cases("options", {"target": ("--target-loss", "0.3"), "threshold": ("--threshold", "0.00005")})
def test_nothing_is_predicted_of_losses_that_are_no_numbers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, str]
) -> None:
    lines = [*LOSSES, *(f"epoch={n} loss=nan" for n in range(120, 125))]
    text, value = forecast(tmp_path, capsys, lines, *options)
    assert "nothing is predicted" in text
    assert "nan" in text
    assert value["predicted"] is None
    assert "diverged" in str(value["reason"])


def test_a_goal_that_is_met_already_stays_met(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [*LOSSES, *(f"epoch={n} loss=nan" for n in range(120, 125))]
    text, _ = forecast(tmp_path, capsys, lines, "--target-loss", "0.5")
    assert "was met after" in text


def test_a_goal_beyond_the_declared_end_is_unlikely(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = ["Namespace(num_epochs=400)", *LOSSES]
    text, value = forecast(tmp_path, capsys, lines, "--target-loss", "0.05")
    assert "goal unlikely: " in text
    assert "is met after" not in text
    probability, end = value["probability_by_end"], value["declared_end"]
    assert isinstance(probability, float)
    assert math.isclose(
        probability, float(text.partition("unlikely: ")[2].split()[0]) / 100, abs_tol=0.006
    )
    assert value["predicted"] == end == 400
