"""``optimus doctor LOG``: what is read, what is missing, and what to add."""

import json
from pathlib import Path
from typing import Any

import pytest

from optimus.cli.log_doctor import _LINES_TO_ADD
from optimus.cli.main import main
from optimus.cli.training_log import read_progress
from optimus.errors import NotReady
from optimus.jobs import TargetMetric
from optimus.kube.annotations import read_options
from optimus.models.metric_goal import as_losses

LOGS = Path(__file__).parents[2] / "data" / "logs"
PUBLISHED = LOGS / "published"


class Doctor:
    """Runs the command on a log."""

    def __init__(self, folder: Path, printed: pytest.CaptureFixture[str]) -> None:
        self._folder, self._printed = folder, printed

    def log(self, *lines: str) -> Path:
        file = self._folder / "train.log"
        file.write_text("\n".join(lines) + "\n")
        return file

    def json(self, file: Path, *more: str) -> tuple[int, Any]:
        status = main(["doctor", str(file), "--json", *more])
        return status, json.loads(self._printed.readouterr().out)

    def text(self, file: Path) -> tuple[int, str]:
        status = main(["doctor", str(file)])
        return status, self._printed.readouterr().out


@pytest.fixture
def doctor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Doctor:
    return Doctor(tmp_path, capsys)


def values(answer: Any) -> dict[str, str]:
    return {each["what"]: each["value"] for each in answer["findings"]}


def test_a_log_with_all_that_is_needed(doctor: Doctor) -> None:
    log = "gluoncv__detection__ssd_512_resnet50_v1_voc_train.log"
    status, answer = doctor.json(PUBLISHED / log)
    assert (status, answer["missing"], answer["add"]) == (0, [], {})
    found = values(answer)
    assert found["epochs done"] == "240"
    assert found["training loss"] == "7.786 to 1.898"
    assert found["metric accuracy"] == "0.7281 to 0.8825 (rises)"
    assert found["evaluated mAP"] == "0.1743 to 0.8006 (rises)"
    assert found["declared epochs"] == "240"
    assert found["declared drops"] == "160, 200"


def test_the_name_of_a_job_is_no_log(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "mnist"]) == 1
    assert "`optimus why mnist` explains a job" in capsys.readouterr().err


def test_each_finding_has_a_line_that_shows_it(doctor: Doctor) -> None:
    log = doctor.log(
        "Namespace(epochs=3, lr=0.1)",
        "Epoch 1, Loss: 0.5, Accuracy: 0.8, Test Accuracy: 0.7",
        "Epoch 2, Loss: 0.4, Accuracy: 0.9, Test Accuracy: 0.75",
        "epoch=2 checkpoint=2 step=20 samples_per_sec=11",
    )
    _, answer = doctor.json(log)
    lines = {each["what"]: each["line"].split(" ")[0] for each in answer["findings"]}
    assert lines["training loss"] == "Epoch"
    assert lines["evaluated Test Accuracy"] == "Epoch"
    assert lines["declared epochs"] == "Namespace(epochs=3,"
    assert lines["checkpoint"] == lines["samples per second"] == "epoch=2"


@pytest.mark.parametrize(
    ("line", "goal"),
    [
        ("Epoch[{n}] Train-accuracy=0.{n}5", "accuracy>=0.45"),
        ("Epoch[{n}] Train-top1-err=0.{n}", "top1-err<=0.4"),
        ("epoch={n} step={n}5 acc=7{n}", "acc>=74"),
    ],
)
def test_for_a_log_without_a_loss_a_metric_is_suggested_as_the_goal(
    doctor: Doctor, line: str, goal: str
) -> None:
    log = doctor.log(*(line.format(n=n) for n in range(5)))
    status, text = doctor.text(log)
    assert f'optimus.dl/target: "{goal}"' in text
    assert status == 0
    read = read_options({"optimus.dl/target": goal})
    assert isinstance(read.options["goal"], TargetMetric)
    progress = read_progress(log.read_text().splitlines(), None)
    assert not isinstance(as_losses(read.options["goal"], progress.metrics), NotReady)


def test_a_value_of_unknown_direction_is_no_goal(doctor: Doctor) -> None:
    log = doctor.log(*(f"Epoch[{n}] Train-gizmo=0.{n}" for n in range(5)))
    status, answer = doctor.json(log)
    assert status == 1
    assert answer["missing"] == ["a training loss: no value of a line is one"]
    assert set(answer["add"]) == {each for each, _ in _LINES_TO_ADD}


def test_a_user_is_asked_which_way_a_nameless_value_improves(doctor: Doctor) -> None:
    log = doctor.log(*(f"[Epoch {n}] train=0.{n} val=0.{n}5 time: 9" for n in range(1, 6)))
    status, answer = doctor.json(log)
    assert status == 1
    (sentence,) = answer["missing"]
    assert "of val only you know which way it improves" in sentence
    for sign, met in ((">=", True), ("<=", False)):
        assert f'optimus.dl/target: "val{sign}VALUE"' in sentence.replace(
            'or "', 'or optimus.dl/target: "'
        )
        read = read_options({"optimus.dl/target": f"val{sign}0.4"})
        assert isinstance(read.options["goal"], TargetMetric)
        progress = read_progress(log.read_text().splitlines(), None)
        found = as_losses(read.options["goal"], progress.metrics)
        assert not isinstance(found, NotReady)
        assert (found.series.name, found.is_met) == ("val", True)
        assert (found.losses[0].loss > found.losses[-1].loss) is met


def test_a_log_without_progress_gets_lines_to_add(doctor: Doctor) -> None:
    status, text = doctor.text(doctor.log("training has started", "working", "done"))
    assert status == 1
    assert "0 of 3 lines are read" in text
    assert "missing: progress" in text
    assert "missing: a training loss" in text
    for framework in ("Keras", "TensorFlow loop", "MXNet Module", "MXNet Gluon", "PyTorch"):
        assert framework in text


def test_losses_that_are_no_numbers_are_missing(doctor: Doctor) -> None:
    status, answer = doctor.json(doctor.log(*(f"step={n} loss=nan" for n in range(9))))
    assert status == 1
    assert any("nan or infinite" in each for each in answer["missing"])


@pytest.mark.parametrize("content", [b"\xff" * 5000, b"hello\r" * 9999, b"loss=1 " * 9999])
def test_any_file_is_answered(doctor: Doctor, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "train.log"
    file.write_bytes(content)
    status, answer = doctor.json(file)
    assert status == 1
    assert answer["missing"]


def test_a_file_that_is_not_there_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "/nowhere/train.log"]) == 1
    assert "/nowhere/train.log" in capsys.readouterr().err


def test_a_log_without_a_checkpoint_gets_a_note(doctor: Doctor) -> None:
    lines = ["step=10 loss=0.9", "step=20 loss=0.8"]
    assert "checkpoint is complete" in doctor.json(doctor.log(*lines))[1]["notes"][0]
    saved = doctor.log(*lines, "Saved checkpoint for step 20: ckpt/1")
    assert doctor.json(saved)[1]["notes"] == []
    assert doctor.json(doctor.log("epoch,loss", "1,0.5", "2,0.4"))[1]["notes"] == []


@pytest.mark.parametrize(
    "lines",
    [
        [
            "Traceback (most recent call last):",
            '  File "train.py", line 3',
            "ValueError: bad shape",
        ],
        ["RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB", "closing 3 workers"],
        ["2026-01-02 03:00:00,123 - trainer - ERROR - torch.cuda.OutOfMemoryError: CUDA error"],
        ["Killed"],
    ],
)
def test_the_error_that_a_log_ends_with_is_shown(doctor: Doctor, lines: list[str]) -> None:
    steps = [f"step={n} loss={1 / n}" for n in range(1, 5)]
    _, answer = doctor.json(doctor.log(*steps, *lines))
    assert answer["error"] in lines
    assert f"last error: {answer['error']}"[:70] in doctor.text(doctor.log(*steps, *lines))[1]
    _, answer = doctor.json(doctor.log(*lines, *steps))
    assert answer["error"] is None


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "this file is empty"),
        (b"\n \n", "this file is empty"),
        (bytes(range(256)) * 20, "this file is binary"),
        ("epoch=1 loss=0.5".encode("utf-16-le"), "this file is binary"),
    ],
)
def test_a_file_that_is_no_text_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, said: str
) -> None:
    file = tmp_path / "train.log"
    file.write_bytes(content)
    assert main(["doctor", str(file)]) == 1
    assert said in capsys.readouterr().err


def test_of_a_large_log_parts_are_read_and_that_is_said(doctor: Doctor) -> None:
    filler = "." * 4000
    lines = [f"epoch={n // 1000} step={n} loss={2 - n / 5000} note {filler}" for n in range(5001)]
    _, answer = doctor.json(doctor.log(*lines))
    assert (answer["steps"], values(answer)["training loss"]) == (5000, "2 to 1")
    assert 1000 < answer["read"] < 4000
    assert "passed over" in answer["notes"][0]


def test_a_bar_over_the_whole_run_is_read_state_by_state(doctor: Doctor) -> None:
    states = [
        f"\rSteps:  {n // 50}%|#   | {n}/5000 [00:50<41:20,  2.01it/s, step_loss={1 - n / 5000}]"
        for n in range(1, 5001)
    ]
    _, answer = doctor.json(doctor.log("".join(states)))
    assert (answer["steps"], values(answer)["declared steps"]) == (5000, "5000")
    assert 100 < answer["losses"] <= 200
