"""The made-up clusters that the speed model is held against."""

import math
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.synthetic_clusters import KINDS, SyntheticCluster, draw_cluster
from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from tests.cases import cases


class TestClusters:
    """Clusters whose speed is plain to see."""

    cluster = SyntheticCluster(
        mode=TrainingMode.SYNC,
        batch=Batch(12, BatchScope.JOB),
        transfer=0.2,
        own_link=0.2,
        fixed=0.0,
        sharpness=50.0,
    )

    @cases(
        ("change", "counts", "seconds"),
        {
            "all examples and the model over one link": ({}, (1, 1), 1.2),
            "a quarter of the examples, four workers at one PS": ({}, (1, 4), 0.25 + 0.8),
            "the worker's own link stays": ({}, (8, 4), 0.25 + 0.2),
            "one worker of five has three examples of twelve": ({}, (8, 5), 3 / 12 + 0.2),
            "four workers on two cores": ({"cores": 2.0}, (8, 4), 0.5 + 0.2),
            "an update at each PS": ({"update": 4.0, "own_link": 1e-9}, (2, 1), 1 + (0.2 + 4) / 2),
            "costs": (
                {"fixed": 0.3, "per_ps": 0.1, "per_worker": 0.2},
                (3, 1),
                1.2 + 0.3 + 0.3 + 0.2,
            ),
            "computation hidden behind the link": ({"overlap": 1.0, "own_link": 1.5}, (9, 1), 1.5),
            "a PS that holds too much": (
                {"unevenness": (0.0, 0.5), "own_link": 1e-9},
                (2, 1),
                1 + 0.15,
            ),
        },
    )
    def test_seconds_of_a_step(
        self, change: dict[str, float], counts: tuple[int, int], seconds: float
    ) -> None:
        cluster = replace(self.cluster, **change)  # type: ignore[arg-type]  # fields by name
        assert 1 / cluster.speed(Counts(*counts)) == pytest.approx(seconds, rel=0.02)

    def test_workers_apart_are_limited_by_themselves_or_by_the_queue(self) -> None:
        cluster = replace(
            self.cluster, mode=TrainingMode.ASYNC, batch=Batch(12, BatchScope.WORKER), transfer=0.5
        )
        assert cluster.speed(Counts(100, 1)) == pytest.approx(1 / 1.2, rel=0.01)
        assert cluster.speed(Counts(1, 100)) == pytest.approx(1 / 0.5, rel=0.01)

    @pytest.mark.parametrize("kind", KINDS)
    def test_are_the_same_for_the_same_seed_and_have_the_stated_noise(self, kind: str) -> None:
        cluster, again, other = (
            draw_cluster(kind, np.random.default_rng(seed)) for seed in (1, 1, 2)
        )
        assert cluster == again != other
        quiet = replace(cluster, noise=0.05, repeats=200)
        table = quiet.table(np.random.default_rng(1))
        spread = [
            np.std(np.log(np.array(runs) / quiet.speed(counts))) for counts, runs in table.items()
        ]
        assert len(table) == 36
        assert np.mean(spread) == pytest.approx(0.05, rel=0.05)
        assert all(math.isfinite(quiet.speed(counts)) for counts in table)
