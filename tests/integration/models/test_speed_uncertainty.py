"""The uncertainty that the speed model tells, held against the truth on made-up clusters: the
statistics of 90 of them, which take long."""

from functools import cache
from typing import TypeAlias

import numpy as np
import pytest

from benchmarks.synthetic_clusters import draw_cluster
from tests.unit.models.measured import learned

Deviations: TypeAlias = np.ndarray[tuple[int], np.dtype[np.float64]]

NUMBERS = (5, 10, 20)


@cache
def deviations(kind: str, clusters: int = 30) -> dict[int, Deviations]:
    """(log predicted - log true) / told standard deviation, at all counts not seen of several
    clusters, by number of samples."""
    found: dict[int, list[Deviations]] = {number: [] for number in NUMBERS}
    for index in range(clusters):
        generator = np.random.default_rng([41, index])
        cluster = draw_cluster(kind, generator, noise=(0.02, 0.04, 0.08)[index % 3])
        table = {counts: runs[0] for counts, runs in cluster.table(generator).items()}
        models = learned(table, NUMBERS, cluster.mode, cluster.batch)
        for number, (model, hidden) in zip(NUMBERS, models, strict=True):
            ps, workers = np.array(hidden).T
            true = np.array([cluster.speed(counts) for counts in hidden])
            found[number].append(
                np.log(model.steps_per_second(ps, workers) / true) / model.uncertainty(ps, workers)
            )
    return {number: np.concatenate(each) for number, each in found.items()}


@pytest.mark.parametrize("kind", ["sync", "sync, batch per worker", "async"])
@pytest.mark.parametrize("number", NUMBERS)
def test_it_is_calibrated(kind: str, number: int) -> None:
    """Of the truth 68 % should lie within one standard deviation, 90 % within 1.64; vaguer is the
    lesser fault."""
    apart = np.abs(deviations(kind)[number])
    assert 0.65 < np.mean(apart < 1) < 0.95
    assert np.mean(apart < 1.64) > 0.87
