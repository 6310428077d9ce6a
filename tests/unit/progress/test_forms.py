"""Forms of public programs and threads, with numbers made up for this project: what each says.

``forms.jsonl`` has a form on each line: the lines that a program prints and what is right for them.
Files are read as ``optimus doctor`` reads them."""

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from optimus.cli.exports import as_lines
from optimus.cli.training_log import read_progress
from optimus.jobs import TargetEpochs
from optimus.models.forecast import goal_is_met
from optimus.progress.parsed_line import ParsedLine
from tests.unit.progress.reads import DATA

FORMS: Final[list[dict[str, Any]]] = [
    json.loads(line) for line in (DATA / "forms.jsonl").read_text().splitlines()
]


def said(lines: Sequence[str]) -> dict[str, object]:
    """What is read in a log of these lines."""
    saved = []

    def note(_: str, parsed: ParsedLine | None) -> None:
        if parsed is not None and parsed.saved is not None:
            saved.append(parsed.saved)

    progress = read_progress(as_lines("\n".join(lines).encode()), None, on_line=note)
    losses = [point.loss for point in progress.losses]
    found: dict[str, object] = {
        "losses": [len(losses), *(losses[:1] + losses[-1:] if losses else [])],
        "epochs": progress.epoch,
        "steps": progress.step,
        "evaluated": sorted(each.name for each in progress.metrics if each.evaluated),
        "metrics": sorted(each.name for each in progress.metrics if not each.evaluated),
        "declared epochs": progress.declared.epochs,
        "declared steps": progress.declared.steps,
        "saved": len(saved),
    }
    return {name: value for name, value in found.items() if value or name in _ALWAYS}


_ALWAYS: Final = ("losses", "epochs", "steps")


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form["form"])
def test_a_form_is_read(form: dict[str, Any]) -> None:
    found = said(form["lines"])
    expected = {name: pytest.approx(value) for name, value in form["read"].items() if value}
    assert found == {**dict.fromkeys(_ALWAYS), **found, **expected}
    assert found.keys() == form["read"].keys()


PREFIXES: Final = [
    "2026-01-02 03:00:00,123 - trainer - INFO - ",
    "[pod/ctr-worker-0/tensorflow] 2026-01-02T03:00:00.123456789Z ",
    "[INFO|trainer.py:398] 2021-01-15 10:00:50,371 >> ",
    "2026-01-02T03:00:00.123456789Z stdout F ",
    "2026-01-01 00:00:00.123 | INFO     | __main__:train:45 - ",
    "[2026-01-02 03:00:00,123][__main__][INFO] - ",
    "Jan  2 03:00:00 host1 python[123]: ",
    "[02d07h00m43s][HUGECTR][INFO]: ",
    "[2022/11/16 11:00:26] root INFO: ",
    "12/31/2020 23:59:59 - INFO - transformers.trainer -   ",
    "[0101 00:00:10 @base.py:285] ",
    "INFO:tensorflow:2023-04-23 05:08:00.334784: ",
    "(RayTrainWorker pid=123, ip=10.0.0.1) ",
    "ctr-worker-0 tensorflow ",
    "trainer-7d9f4b-x2x9z main ",
    "+ worker-0 › main ",
    "worker-1  | ",
    "node-1: ",
    "10.0.0.1: ",
    "[rank0]: ",
    "[1,0]<stdout>:",
]


@pytest.mark.parametrize("prefix", PREFIXES)
def test_a_prefix_is_no_obstacle(prefix: str) -> None:
    for line in (
        "Epoch {n}/9 - loss: 0.{m}",
        "{{'loss': 0.{m}, 'step': {n}}}",
        "step={n} loss=0.{m}",
    ):
        texts = [line.format(n=n, m=9 - n) for n in range(1, 6)]
        assert said([prefix + text for text in texts]) == said(texts)
        assert said(texts)["losses"] == [5, 0.8, 0.4]


def test_of_several_processes_in_one_log_one_is_followed() -> None:
    lines = [
        line
        for n in range(10, 60, 10)
        for line in (f"[rank0]: step {n} loss 0.{n}", f"[rank1]: step {n - 5} loss 0.9")
    ]
    assert said(lines) == said([f"step {n} loss 0.{n}" for n in range(10, 60, 10)])


@pytest.mark.parametrize(
    "line",
    [
        "{'epoch': 1, 'loss': 0.5}",
        "Epoch 1/90 loss 0.5",
        "epoch=1 loss=0.5",
        "epoch: 1, iter: 40, loss: 1",
    ],
)
def test_no_epoch_is_met_by_the_first_line_with_it(line: str) -> None:
    assert not goal_is_met(TargetEpochs(1.0), read_progress([line], None))
    assert not goal_is_met(TargetEpochs(1.0), read_progress([line, f"{line} x"], None))


def test_values_below_the_heading_of_an_evaluation_are_its_result() -> None:
    lines = ["step 10: loss 0.9", "***** Eval results *****", "  accuracy = 0.8", "  loss = 0.5"]
    found = said(lines)
    assert found["losses"] == [1, 0.9, 0.9]
    assert found["evaluated"] == ["accuracy", "loss"]


def test_a_heading_holds_only_where_values_have_no_position_of_their_own() -> None:
    lines = ["step 10 loss 0.9", "step 20 loss 0.8", "step 30:", "loss=0.1"]
    assert said(lines)["losses"] == [2, 0.9, 0.8]


def test_a_dictionary_over_several_lines_is_one() -> None:
    lines = [
        "step 10",
        "{'loss': 0.9,",
        " 'auc': 0.7,",
        " 'lr': 0.1}",
        "{'loss': ",
        "step 20",
        "loss=0.8",
    ]
    assert said(lines)["losses"] == [2, 0.9, 0.8]


LINES: Final = [form for form in FORMS if not form["lines"][0].startswith('{"loss"')]


@pytest.mark.parametrize(("number", "form"), list(enumerate(LINES)))
def test_a_form_is_read_behind_a_prefix_as_without_it(number: int, form: dict[str, Any]) -> None:
    several = [each for each in PREFIXES if not each.startswith("node")]  # a host's may be a name's
    prefix = several[number % len(several)]
    assert said([prefix + line for line in form["lines"]]) == said(form["lines"])


def test_steps_with_a_total_below_the_header_of_an_epoch_are_of_the_epoch() -> None:
    steps = [f"Step {n}/30, loss: 0.{9 - n // 10}" for n in (10, 20, 30)]
    found = said([line for epoch in (1, 2) for line in (f"Epoch {epoch}/5", *steps)])
    assert (found["epochs"], found["declared epochs"]) == (2, 5)
    assert "declared steps" not in found


@pytest.mark.parametrize("before", ["step {}: ", "{}: ", "[{}] "])
def test_an_object_has_the_position_in_front_of_it(before: str) -> None:
    lines = [before.format(n) + f"{{'loss': 0.{9 - n}, 'accuracy': 0.{n}}}" for n in (1, 2, 3)]
    assert said(lines) == {
        "losses": [3, 0.8, 0.6],
        "epochs": None,
        "steps": 3,
        "metrics": ["accuracy"],
    }


def test_beside_values_that_say_training_the_others_are_an_evaluations() -> None:
    lines = [f"Epoch={n} start\nTrain loss: 0.{9 - n}\n[Metrics] AUC: 0.{n}5" for n in (1, 2, 3)]
    found = said([line for each in lines for line in each.split("\n")])
    assert (found["losses"], found["epochs"], found["evaluated"]) == ([3, 0.8, 0.6], 3, ["AUC"])
