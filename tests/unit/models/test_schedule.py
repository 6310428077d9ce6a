"""Schedules of the learning rate: each shape, what logs declare, what printed rates show."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.models.convergence import LearningRateSchedule
from optimus.models.convergence.schedule import DecayShape
from optimus.progress.types import Declared
from tests.cases import cases

NUMBER = st.none() | st.floats(1e-3, 1e6)
DECLARED = st.builds(
    Declared,
    epochs=st.none() | st.integers(1, 10**6),
    steps=st.none() | st.integers(1, 10**9),
    schedule=st.sampled_from([None, "exponential", "unheard-of", *DecayShape]),
    drops=st.lists(st.floats(1e-3, 1e6), max_size=5).map(tuple),
    drop_factor=NUMBER,
    warmup_epochs=NUMBER,
    warmup_steps=NUMBER,
    warmup_fraction=st.none() | st.floats(0, 1),
)


def rates(schedule: LearningRateSchedule, *k: float) -> list[float]:
    return [float(each) for each in schedule.rate(np.array(k))]


class TestRate:
    def test_a_constant_one(self) -> None:
        assert rates(LearningRateSchedule(90.0), 0, 45, 90) == [1, 1, 1]

    def test_drops_after_epochs(self) -> None:
        schedule = LearningRateSchedule(200.0, DecayShape.STEP, (100.0, 150.0), 0.2)
        found = rates(schedule, 1, 99.5, 100, 100.5, 150, 150.5)
        assert found == pytest.approx([1, 1, 1, 0.2, 0.2, 0.04])

    def test_losses_follow_a_drop_fast_at_first_and_then_slowly(self) -> None:
        schedule = LearningRateSchedule(200.0, DecayShape.STEP, (100.0, 150.0), 0.2)
        k = np.array([50, 100, 100.5, 105, 140, 149, 150.5, 160, 1e9])
        found = schedule.followed_rate(k, 0.3)
        assert found[:2] == pytest.approx([1, 1])
        assert (np.diff(found[1:]) < 0).all()
        assert found[2] == pytest.approx(0.2 + 0.8 * 3.5**-0.3)
        half_of_the_fall = 0.6
        assert found[3] < half_of_the_fall < found[2]
        assert found[4] > 0.3
        assert found[-1] == pytest.approx(0.04, rel=0.1)
        assert schedule.followed_rate(k, math.inf) == pytest.approx(schedule.rate(k))

    def test_losses_follow_other_shapes_at_once(self) -> None:
        schedule, k = (
            LearningRateSchedule(110.0, DecayShape.COSINE, warmup=10.0),
            np.arange(0.0, 111),
        )
        assert schedule.followed_rate(k, 0.3) == pytest.approx(schedule.rate(k))

    def test_a_warm_up_comes_before_the_first_drop(self) -> None:
        schedule = LearningRateSchedule(200.0, DecayShape.STEP, (100.0,), warmup=10.0)
        found = schedule.followed_rate(np.array([1.0, 5, 50, 101]), 0.3)
        assert found[:3] == pytest.approx([0.1, 0.5, 1])
        assert 0.1 < found[3] < 1

    def test_a_cosine(self) -> None:
        schedule = LearningRateSchedule(100.0, DecayShape.COSINE)
        assert rates(schedule, 0, 50, 75) == pytest.approx([1, 0.5, (1 - 0.5**0.5) / 2])
        assert 0 < rates(schedule, 100)[0] < 0.001

    def test_a_line(self) -> None:
        found = rates(LearningRateSchedule(100.0, DecayShape.LINEAR), 0, 25, 90)
        assert found == pytest.approx([1, 0.75, 0.1])

    def test_a_parabola(self) -> None:
        found = rates(LearningRateSchedule(100.0, DecayShape.POLYNOMIAL), 0, 50, 90)
        assert found == pytest.approx([1, 0.25, 0.01])

    def test_a_warm_up_comes_first(self) -> None:
        schedule = LearningRateSchedule(110.0, DecayShape.COSINE, warmup=10.0)
        assert rates(schedule, 1, 5, 10, 60) == pytest.approx([0.1, 0.5, 1, 0.5])

    def test_a_warm_up_of_no_length(self) -> None:
        schedule = LearningRateSchedule(100.0, DecayShape.LINEAR, warmup=2e-311)
        assert rates(schedule, 0, 50) == pytest.approx([1, 0.5])

    @given(DECLARED, st.booleans(), st.lists(st.floats(0, 2e9), min_size=1, max_size=8))
    def test_whatever_is_declared_the_rate_is_a_part_of_its_largest(
        self, declared: Declared, in_epochs: bool, k: list[float]
    ) -> None:
        schedule = LearningRateSchedule.of(declared, in_epochs=in_epochs)
        if schedule is None:
            assert not (declared.epochs if in_epochs else declared.steps)
            return
        found = schedule.rate(np.array(k))
        assert ((found > 0) & (found <= 1)).all()


class TestDeclared:
    def test_without_an_end_there_is_none(self) -> None:
        declared = Declared(schedule="step", drops=(30.0,), steps=900)
        assert LearningRateSchedule.of(declared, in_epochs=True) is None

    def test_drops_are_in_epochs(self) -> None:
        declared = Declared(epochs=90, steps=900, schedule="step", drops=(60.0, 30.0, 90.0))
        in_epochs = LearningRateSchedule.of(declared, in_epochs=True)
        in_steps = LearningRateSchedule.of(declared, in_epochs=False)
        assert in_epochs == LearningRateSchedule(90.0, DecayShape.STEP, (30.0, 60.0))
        assert in_steps == LearningRateSchedule(900.0)

    def test_a_factor_that_raises_the_rate_is_not_believed(self) -> None:
        declared = Declared(epochs=90, schedule="step", drops=(30.0,), drop_factor=10.0)
        found = LearningRateSchedule.of(declared, in_epochs=True)
        assert found is not None
        assert found.factor == 0.1

    @pytest.mark.parametrize(
        ("declared", "in_epochs", "warmup"),
        [
            (Declared(epochs=100, warmup_epochs=5.0), True, 5.0),
            (Declared(steps=1000, warmup_steps=60.0), False, 60.0),
            (Declared(steps=1000, warmup_fraction=0.1), False, 100.0),
            (Declared(epochs=10, warmup_epochs=500.0), True, 5.0),
        ],
    )
    def test_the_warm_up(self, declared: Declared, in_epochs: bool, warmup: float) -> None:
        found = LearningRateSchedule.of(declared, in_epochs=in_epochs)
        assert found is not None
        assert found.warmup == warmup


class TestPrintedRates:
    K = np.arange(1.0, 41)

    @pytest.mark.parametrize("shape", [DecayShape.LINEAR, DecayShape.COSINE, DecayShape.POLYNOMIAL])
    @pytest.mark.parametrize("warmup", [0.0, 5.0])
    def test_show_the_shape_where_only_the_end_is_declared(
        self, shape: DecayShape, warmup: float
    ) -> None:
        true = LearningRateSchedule(100.0, shape, warmup=warmup)
        found = LearningRateSchedule(100.0).seen_in(self.K, 0.3 * true.rate(self.K))
        assert found.shape is shape
        assert found.rate(np.array([70.0])) == pytest.approx(true.rate(np.array([70.0])), abs=0.03)

    @cases(
        "printed",
        {
            "constant": np.full(40, 0.1),
            "a drop": np.where(K < 20, 0.1, 0.01),
            "to another end": 0.1 * LearningRateSchedule(41.0, DecayShape.LINEAR).rate(K),
            "jitter": 0.1
            * LearningRateSchedule(100.0, DecayShape.LINEAR).rate(K)
            * (1 + 0.2 * (K % 2)),
            "zero": np.zeros(40),
        },
    )
    def test_of_no_known_shape_leave_it_constant(self, printed: np.ndarray) -> None:
        schedule = LearningRateSchedule(100.0)
        assert schedule.seen_in(self.K, printed) == schedule

    def test_do_not_replace_what_is_declared(self) -> None:
        schedule = LearningRateSchedule(100.0, DecayShape.STEP, (90.0,))
        line = LearningRateSchedule(100.0, DecayShape.LINEAR).rate(self.K)
        assert schedule.seen_in(self.K, line) == schedule

    def test_agree_with_what_they_follow_even_with_jitter(self) -> None:
        schedule = LearningRateSchedule(100.0, DecayShape.STEP, (20.0,))
        printed = 30 * schedule.rate(self.K) * np.where(self.K % 7 == 0, 0.5, 1.0)
        assert schedule.agrees(self.K, printed)

    @pytest.mark.parametrize("drops", [(), (39.0,)])
    def test_contradict_a_schedule_without_their_drop(self, drops: tuple[float, ...]) -> None:
        schedule = LearningRateSchedule(100.0, DecayShape.STEP, drops)
        assert not schedule.agrees(self.K, np.where(self.K > 30, 0.01, 0.1))
