"""One job on several kinds of nodes: a factor each, learned beside the curve."""

from collections.abc import Mapping
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.speed.curve import MergedSamples, SpeedForm, SpeedTerms, mixed_kind
from optimus.models.speed.model import NodeFactors, SpeedModel
from optimus.progress.types import SpeedSample
from tests.cases import cases

GRID = [Counts(ps, workers) for ps in range(1, 6) for workers in range(1, 6)]
TRUE = {"fast": 2.0, "slow": 0.7}
OWN = Batch(16, BatchScope.WORKER)


def truth(counts: Counts) -> float:
    return counts.workers / (
        0.4 + 0.5 * max(counts.workers / counts.ps, 1.0) + 0.02 * counts.workers
    )


def samples(kinds: Mapping[Counts, str], noise: float = 0.0) -> list[SpeedSample]:
    generator = np.random.default_rng(1)
    return [
        SpeedSample(
            c,
            truth(c) * TRUE.get(kind, 1.0) * float(np.exp(generator.normal(0, noise))),
            600.0,
            0.0,
            kind,
        )
        for c, kind in kinds.items()
    ]


def fitted(taken: list[SpeedSample], form: SpeedForm = SpeedForm.BLEND) -> SpeedModel:
    model = SpeedModel.fit(taken, TrainingMode.ASYNC, OWN, form)
    assert isinstance(model, SpeedModel)
    return model


ALTERNATING = {counts: "fast" if index % 2 else "slow" for index, counts in enumerate(GRID)}


def test_classes_are_distinguished_without_common_counts() -> None:
    model = fitted(samples(ALTERNATING, noise=0.03))
    assert model.nodes.of("fast") / model.nodes.of("slow") == pytest.approx(2.0 / 0.7, rel=0.05)
    for kind, factor in TRUE.items():
        errors = [abs(model.on(kind).at(counts) / (truth(counts) * factor) - 1) for counts in GRID]
        assert np.mean(errors) < 0.03


def test_unknown_nodes_have_the_factor_1() -> None:
    model = fitted(
        samples({counts: "fast" if index % 3 == 0 else "" for index, counts in enumerate(GRID)})
    )
    assert model.nodes.of("fast") == pytest.approx(2.0, rel=0.02)
    assert model.on("") is not model
    assert model.on("").at(Counts(2, 3)) == pytest.approx(truth(Counts(2, 3)), rel=0.02)


def test_little_evidence_leaves_a_factor_near_1() -> None:
    """One sample that lasted no time at all beside many: weaker than what is believed before
    anything is measured."""
    known = samples(dict.fromkeys(GRID[:-1], ""))
    short = SpeedSample(GRID[-1], truth(GRID[-1]) * 2, 2.0, 0.0, "fast")
    long = SpeedSample(GRID[-1], truth(GRID[-1]) * 2, 1e6, 0.0, "fast")
    hardly, surely = (fitted([*known, each]).nodes.of("fast") for each in (short, long))
    assert 1.0 < hardly < surely < 2.05


def test_one_class_alone_needs_no_factor() -> None:
    model = fitted(samples(dict.fromkeys(GRID, "fast")))
    assert model.nodes.factors == {}
    assert model.on("fast").at(Counts(2, 2)) == model.at(Counts(2, 2))


def test_an_anchor_on_one_class_applies_to_the_others() -> None:
    """Measured 10 % below the model on slow nodes: on fast ones it will be 10 % slower as well."""
    model = fitted(samples(ALTERNATING))
    here = Counts(3, 3)
    anchored = model.on("slow").anchored(here, 0.9 * model.on("slow").at(here))
    assert anchored.at(here) == pytest.approx(0.9 * model.on("slow").at(here))
    assert anchored.on("fast").at(here) == pytest.approx(0.9 * model.on("fast").at(here))
    assert anchored.on("fast").on("slow").at(here) == pytest.approx(anchored.at(here))


def test_an_unmeasured_class_changes_nothing() -> None:
    model = fitted(samples(ALTERNATING))
    assert model.on("new").at(Counts(2, 2)) == model.at(Counts(2, 2))


class TestMixedKinds:
    @cases(
        ("workers", "written"),
        {
            "one kind": ({"fast": 3}, "fast"),
            "two kinds, in order": ({"slow": 1, "fast": 3}, "fast*3,slow*1"),
            "none of one kind": ({"slow": 1, "fast": 0}, "slow"),
            "none at all": ({}, ""),
        },
    )
    def test_are_written_as_one_text(self, workers: Mapping[str, int], written: str) -> None:
        assert mixed_kind(workers) == written

    @cases(
        ("mode", "factor"),
        {
            "sync: the slowest": (TrainingMode.SYNC, 0.7),
            "async: the sum": (TrainingMode.ASYNC, (3 * 2.0 + 0.7) / 4),
        },
    )
    def test_are_as_fast_as_the_mode_makes_them(self, mode: TrainingMode, factor: float) -> None:
        assert NodeFactors(mode, TRUE).of("fast*3,slow*1") == pytest.approx(factor)

    def test_a_class_may_be_any_label(self) -> None:
        labels = {counts: f"example.com/gpu={kind}" for counts, kind in ALTERNATING.items()}
        taken = [replace(each, node_kind=labels[each.counts]) for each in samples(ALTERNATING)]
        assert dict(fitted(taken).nodes.factors) == {
            f"example.com/gpu={kind}": factor
            for kind, factor in fitted(samples(ALTERNATING)).nodes.factors.items()
        }

    def test_enter_the_curve_and_no_factor(self) -> None:
        taken = samples(ALTERNATING)
        both = SpeedSample(
            Counts(5, 5), truth(Counts(5, 5)) * (3 * 2.0 + 2 * 0.7) / 5, 600.0, 0.0, "fast*3,slow*2"
        )
        model = fitted([*taken, both])
        assert set(model.nodes.factors) == {"fast", "slow"}
        assert model.nodes.of("fast") == pytest.approx(fitted(taken).nodes.of("fast"), rel=0.02)
        assert model.on("fast*3,slow*2").at(Counts(5, 5)) == pytest.approx(
            both.steps_per_second, rel=0.02
        )


@pytest.mark.parametrize("seed", range(5))
def test_speeds_of_any_size_have_factors(seed: int) -> None:
    """A log may print whatever its writer likes."""
    random = Random(seed)
    samples = tuple(
        SpeedSample(
            Counts(1 + number % 8, 1 + number // 8),
            random.choice([1e-6, 1.0, 1e6]) * random.random(),
            60.0,
            1000.0 + number,
            f"kind-{number % 8}",
        )
        for number in range(64)
    )
    model = SpeedModel.of(MergedSamples.of(samples), SpeedTerms(TrainingMode.ASYNC, None))
    assert isinstance(model, SpeedModel)
