"""What speed samples are worth: repeats, length, age, noise, kinds of nodes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts
from optimus.models.speed.curve import LatestSpeed, MergedSamples
from optimus.progress.types import SpeedSample
from tests.cases import cases

HERE, THERE = Counts(1, 2), Counts(2, 2)
LONG = 1e9


def taken(
    speed: float, seconds: float = LONG, at: float = 0.0, counts: Counts = HERE, kind: str = ""
) -> SpeedSample:
    return SpeedSample(counts, speed, seconds, at, kind)


def mean(*samples: SpeedSample) -> float:
    (speed,) = MergedSamples.of(samples).steps_per_second.tolist()
    return float(speed)


class TestRepeats:
    def test_of_one_length_and_age_are_averaged(self) -> None:
        assert mean(taken(1.0), taken(2.0), taken(6.0)) == pytest.approx(3.0)

    def test_count_by_their_seconds_up_to_a_point(self) -> None:
        """20 s weigh half as much as a day: the noise of a line or two averages out, that of a run
        does not."""
        assert mean(taken(1.0, seconds=LONG), taken(2.0, seconds=20.0)) == pytest.approx(
            (1 + 2 / 2) / 1.5
        )

    def test_count_half_for_every_half_hour_that_a_newer_one_is_younger(self) -> None:
        assert mean(taken(1.0, at=0.0), taken(2.0, at=1800.0)) == pytest.approx((1 / 2 + 2) / 1.5)
        assert mean(taken(1.0, at=0.0), taken(2.0, at=3600.0)) == pytest.approx((1 / 4 + 2) / 1.25)

    def test_age_alone_is_no_fault(self) -> None:
        """Samples at other counts, however new, say nothing against an old one here."""
        measured = MergedSamples.of([taken(1.0, at=0.0), taken(2.0, at=1e6, counts=THERE)])
        assert measured.runs.tolist() == pytest.approx([1.0, 1.0])

    def test_are_apart_on_other_classes_of_nodes(self) -> None:
        measured = MergedSamples.of(
            [taken(1.0, kind="slow"), taken(2.0, kind="fast"), taken(2.2, kind="fast")]
        )
        assert list(zip(measured.counts, measured.kinds, strict=True)) == [
            (HERE, "fast"),
            (HERE, "slow"),
        ]
        assert measured.steps_per_second.tolist() == pytest.approx([2.1, 1.0])

    @given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=9))
    def test_have_a_mean_within_their_range_in_any_order(self, speeds: list[float]) -> None:
        samples = [
            taken(speed, seconds=10 + index, at=100.0 * index) for index, speed in enumerate(speeds)
        ]
        first = mean(*samples)
        assert min(speeds) * (1 - 1e-12) <= first <= max(speeds) * (1 + 1e-12)
        assert mean(*samples[::-1]) == pytest.approx(first, rel=1e-12)


class TestLeftOut:
    @cases(
        "sample",
        {
            "a failed run": taken(0.0),
            "a negative speed": taken(-1.0),
            "no number": taken(float("nan")),
            "an infinite speed": taken(float("inf")),
            "faster than anything": taken(1e300),
            "slower than anything": taken(1e-300),
            "a line or two": taken(1.0, seconds=1.9),
            "no number of seconds": taken(1.0, seconds=float("nan")),
        },
    )
    def test_is_what_carries_no_information(self, sample: SpeedSample) -> None:
        assert MergedSamples.of([sample]).counts == ()
        assert MergedSamples.of([sample, taken(1.0, counts=THERE)]).counts == (THERE,)


class TestWorth:
    def test_grows_with_repeats_from_one_on_but_not_for_ever(self) -> None:
        """Ten thousand equal samples at one pair of counts must not bend the curve to meet them."""
        one, two, many = (
            MergedSamples.of([taken(1.0)] * number).fit_weights[0] for number in (1, 2, 10_000)
        )
        assert one == pytest.approx(1.0)
        assert 1.2 < two < many < 2.01

    def test_falls_where_runs_are_seen_to_differ(self) -> None:
        quiet = MergedSamples.of([taken(1.0), taken(1.01), taken(2.0, counts=THERE)])
        noisy = MergedSamples.of([taken(0.8), taken(1.2), taken(2.0, counts=THERE)])
        assert quiet.noise < 0.03 < noisy.noise
        assert noisy.fit_weights[1] < quiet.fit_weights[1]

    def test_noise_is_estimated_from_the_repeats_of_all_counts(self) -> None:
        here = [taken(speed) for speed in (0.9, 1.1) * 20]
        there = [taken(speed, counts=THERE) for speed in (9.0, 11.0) * 20]
        assert MergedSamples.of(here + there).noise == pytest.approx(0.1, rel=0.05)


def test_the_speed_at_counts_is_that_of_their_latest_class() -> None:
    measured = MergedSamples.of([taken(1.0, at=5.0, kind="slow"), taken(2.0, at=9.0, kind="fast")])
    assert measured.latest_at(HERE) == LatestSpeed(2.0, "fast")
    assert measured.latest_at(HERE, "slow") == LatestSpeed(1.0, "slow")
    assert measured.latest_at(HERE, "another") == LatestSpeed(2.0, "fast")
    assert measured.latest_at(THERE) is None
