"""Numbers are read as whole tokens, in the notation of their line."""

import time

import pytest

from optimus.jobs import TargetEpochs, TargetLoss
from optimus.models.forecast import goal_is_met
from optimus.progress.printed_values import number_of, plain, unclear_number
from tests.cases import cases
from tests.unit.progress.reads import read


@cases(
    ("text", "expected"),
    {
        "a decimal comma": ("Loss 0,4123", "Loss 0.4123"),
        "thousands": ("loss 1,369.8", "loss 1369.8"),
        "both, the other way": ("Verlust 1.369,85", "Verlust 1369.85"),
        "millions": ("step 12,345,678", "step 12345678"),
        "a count": ("Step: 4,000 | Loss: 0.5", "Step: 4000 | Loss: 0.5"),
        "a count in brackets": ("[1,024/2,048] loss 0.5", "[1,024/2048] loss 0.5"),
        "one that may be either": ("loss 1,369", "loss 1,369"),
        "the line tells which": ("loss 1,369 acc 0,51", "loss 1.369 acc 0.51"),
        "an exponent": ("loss 0,5e-3", "loss 0.5e-3"),
        "a comma between pairs": ("loss=0.5,acc=0.6", "loss=0.5,acc=0.6"),
        "a tuple": ("betas=(0.9,0.999)", "betas=(0.9,0.999)"),
        "a time": ("at 03:00:00,123 loss", "at 03:00:00,123 loss"),
        "a list": ("ids 1,2,3", "ids 1,2,3"),
        "thousands with apostrophes": ("loss 1'369.8", "loss 1369.8"),
        "and with typographic ones": ("loss 1’234’567", "loss 1234567"),
        "thousands with narrow spaces": ("loss 1\u202f369,8", "loss 1369.8"),
        "digits of another script": ("loss ٠٫٩١", "loss 0.91"),
        "quotes": ("{'loss': 0.5, 'b':'123'}", "{'loss': 0.5, 'b':'123'}"),
        "full-width": ("epoch：1，loss：0.68", "epoch:1,loss:0.68"),
        "a tensor": ("loss tensor(0.68, device='cuda:0')", "loss 0.68"),
        "a scalar of NumPy": ("{'loss': np.float64(0.68)}", "{'loss': 0.68}"),
    },
)
def test_a_line_in_one_notation(text: str, expected: str) -> None:
    assert plain(text) == expected


@pytest.mark.parametrize(
    "text",
    ["1,369", "1'36", "1.2.3", "2026-01-02", "1:05", "9850/10000", "1.9K", "", "0.5 s", "[0.5]"],
)
def test_what_is_no_number(text: str) -> None:
    assert number_of(text) is None


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        pytest.param("Epoch {}/30: Loss 0,68{}", [0.681, 0.682, 0.683], id="a decimal comma"),
        pytest.param("Epoch {} loss 1,369.{}", [1369.1, 1369.2, 1369.3], id="thousands"),
        pytest.param("Epoch {} loss 1,36{}", [], id="one that may be either"),
        pytest.param("Epoch {} batch_cost: 2.1{} sec, acc 0.5", [], id="seconds named cost"),
        pytest.param("epoch={} avg_batch_cost=2.1{}", [], id="a cost of a batch"),
        pytest.param("Epoch {} loss 2.1{} s", [], id="seconds named loss"),
        *(
            pytest.param(f"Epoch {{}} cost 2.1{{}} {unit}", [], id=unit)
            for unit in (
                "sec",
                "secs",
                "seconds",
                "milliseconds",
                "min",
                "minutes",
                "hours",
                "ms/it",
            )
        ),
        pytest.param("Epoch {} mAP@.5 loss@.5:.9{}: 100%|##| 1/1 [00:01<00:00]", [], id="a header"),
        pytest.param("Epoch {}: loss improved from 0.9{} now", [], id="a former value"),
        pytest.param("Epoch {} loss 1 369,{}", [], id="thousands with blanks"),
        pytest.param("Epoch {} loss 10⁻{}", [], id="a power of ten"),
        pytest.param("Epoch {} loss 9.{} x 10^2", [], id="a factor of a power of ten"),
        pytest.param("Epoch {} cost 3.{} msec", [], id="milliseconds"),
        pytest.param("Epoch {} cost 0.3{} GB", [], id="memory named cost"),
        pytest.param("Epoch {} cost 0.3{} USD", [], id="money named cost"),
        pytest.param("Target: epoch {} loss 0.0{}", [], id="a target"),
        pytest.param("Resuming from epoch {} loss 0.0{}", [], id="a result of another run"),
        pytest.param("=> loaded checkpoint epoch {} (loss 0.0{})", [], id="a checkpoint's"),
        pytest.param("Early stopping at epoch {} when loss 0.0{}", [], id="a condition"),
        pytest.param("Epoch {} loss improvement: 0.00{}", [], id="a difference"),
        pytest.param("Epoch {} target loss 0.0{}", [], id="what the loss is to be"),
        pytest.param("epoch={} loss_threshold=0.0{}", [], id="a setting"),
        pytest.param(
            "epoch={} loss_scale=1024 cls_loss=0.5 box_loss=0.{}", [0.6, 0.7, 0.8], id="a factor"
        ),
    ],
)
def test_losses_of_three_epochs(lines: str, expected: list[float]) -> None:
    progress = read([lines.format(n, n) for n in (1, 2, 3)])
    assert [point.loss for point in progress.losses] == pytest.approx(expected)


def test_a_number_that_may_be_either_is_said() -> None:
    progress = read([f"Epoch {n} loss 1,36{n}" for n in range(1, 6)])
    assert progress.losses == ()
    assert progress.diagnostic is not None
    assert "1,361" in progress.diagnostic
    assert "decimal comma" in progress.diagnostic


@pytest.mark.parametrize("loss", ["0,8990", "1,369.8", "12,5", "1,369"])
def test_no_target_is_met_by_the_beginning_of_a_number(loss: str) -> None:
    progress = read([f"Epoch {n}/300: Loss {loss}" for n in range(1, 30)])
    assert not goal_is_met(TargetLoss(0.3), progress)


@pytest.mark.parametrize(
    "line",
    [
        "Finished training it {}024/306968 of epoch 0, 15.12 ms/it, loss 0.548593",
        "xt {}024/306968 of epoch 0, loss 0.548593",
        "Epoch 0 [{}.5%] loss 0.5",
        "epoch=0 sample={}024 loss=0.5",
        "Epoch 0 part {} loss 0.5",
        "Epoch 0 {}k examples loss 0.5",
        "Epoch 0:{}000 loss 0.5",
        "Epoch[0] Part [{}]/[3759] loss=0.5",
    ],
)
def test_a_part_of_an_epoch_is_no_epoch(line: str) -> None:
    for count in (1, 2, 9):
        progress = read([line.format(n) for n in range(1, count + 1)])
        assert not goal_is_met(TargetEpochs(1.0), progress)
        assert len(progress.losses) == count


def test_a_line_with_a_count_ends_its_epoch_where_each_epoch_has_one() -> None:
    lines = [f"epoch={n} loss={1 / n:.3f} seen={60000 * n}" for n in range(1, 6)]
    assert [read(lines[:n]).epoch for n in (1, 2, 5)] == [0.5, 2.0, 5.0]


def test_a_row_within_an_epoch_is_no_epoch() -> None:
    progress = read(["epoch  examples  loss", *(f"1  {n}00  0.9{n}" for n in range(1, 6))])
    assert not goal_is_met(TargetEpochs(1.0), progress)
    assert len(progress.losses) == 5


def test_a_table_with_semicolons_and_decimal_commas() -> None:
    progress = read(["epoch;loss", *(f"{n};0,{9 - n}5" for n in range(4))])
    assert [point.loss for point in progress.losses] == [0.95, 0.85, 0.75, 0.65]
    assert progress.epoch == 4


def test_a_line_of_hundreds_of_numbers_with_commas_keeps_them_and_costs_little() -> None:
    text, seconds = "loss=1,369 " * 372, list[float]()
    for _ in range(5):
        began = time.thread_time()
        assert plain(text) == text
        assert unclear_number(text) is not None
        seconds.append(time.thread_time() - began)
    assert min(seconds) < 0.01
