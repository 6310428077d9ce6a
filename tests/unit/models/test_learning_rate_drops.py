"""Drops of the learning rate: from the rates in the log, and from the losses."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, Role, TrainingMode
from optimus.models.convergence.series import Drop, learning_rate_drops, sudden_falls
from optimus.progress.log import ProgressLog
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.types import LossPoint
from tests.cases import cases
from tests.unit.progress.jobs import START, stamped

CURVES = Path(__file__).parents[2] / "data" / "curves"


def rated(*rates: float | None) -> list[LossPoint]:
    return [LossPoint(1 / (n + 1), n + 1.0, learning_rate=rate) for n, rate in enumerate(rates)]


@cases(
    ("rates", "drops"),
    {
        "a drop": ([0.1] * 4 + [0.01] * 3, [Drop(4, 0.01 / 0.1)]),
        "two": ([0.1] * 2 + [0.05] * 2 + [0.01] * 2, [Drop(2, 0.5), Drop(4, 0.01 / 0.05)]),
        "a smooth decay": ([0.1, 0.095, 0.09, 0.085, 0.08], []),
        "a warm-up": ([0.01, 0.05, 0.1, 0.1], []),
        "a log with changes only, and one": ([None] * 3 + [0.01] * 3, [Drop(3)]),
        "changes only, and two": (
            [None] * 3 + [0.01] * 3 + [0.001] * 2,
            [Drop(3), Drop(6, 0.001 / 0.01)],
        ),
        "changes only, each of them small": ([None] * 3 + [0.099, 0.098, 0.097], []),
        "a rate on some lines": ([0.1, None, 0.1, None, 0.01, None], [Drop(4, 0.01 / 0.1)]),
        "a rate on some lines, not on the first": ([None, 0.1, None, 0.1], []),
        "a warm-up from nothing": ([0.0, 0.1, 0.1], []),
        "rates that are none": ([0.1, 0.1, 0.0, -0.1, 0.0], [Drop(2, 0.0)]),
    },
)
def test_from_the_rates_in_the_log(rates: list[float | None], drops: list[Drop]) -> None:
    assert learning_rate_drops(rated(*rates)) == drops


@pytest.mark.parametrize(
    ("name", "starts"),
    [
        ("mlp_digits_step.log", [41.0, 91.0]),
        ("cnn_digits_step.log", [26.0, 56.0]),
        ("mlp_noisy.log", []),
        ("softmax_digits.log", []),
    ],
)
def test_in_recorded_logs(name: str, starts: list[float]) -> None:
    log = ProgressLog(LogFormatOptions(mode=TrainingMode.SYNC))
    log.observe(
        "w", Role.WORKER, 0, Counts(1, 1), stamped((CURVES / name).read_text().splitlines()), "r"
    )
    points = log.progress(START + 1e6).losses
    assert [points[drop.index].epoch for drop in learning_rate_drops(points)] == starts


def test_without_rates_from_a_fall_of_the_losses() -> None:
    rng = np.random.default_rng(2)
    losses = np.concatenate([0.8 + 1 / np.arange(1, 41), 0.45 + 0.05 / np.arange(1, 21)])
    losses *= np.exp(0.02 * rng.standard_normal(60))
    points = [
        LossPoint(float(loss), n + part, n) for n, loss in enumerate(losses) for part in (0.5, 1.0)
    ]
    (drop,) = learning_rate_drops(points)
    assert (points[drop.index].epoch, drop.ratio) == (40.5, None)


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.005, 0.03]), st.floats(0.0, 0.5))
def test_a_smooth_curve_has_no_sudden_fall(seed: int, noise: float, floor: float) -> None:
    k = np.arange(1.0, 81)
    rng = np.random.default_rng(seed)
    for course in (1 / (0.1 * k + 1) + floor, 2 * np.exp(-k / 15) + floor):
        log_loss = np.log(course + 1e-3) + noise * rng.standard_normal(80)
        assert len(sudden_falls(log_loss)) <= (0 if noise == 0 else 1)
