"""Three samples on clusters on which the PSs or the workers limit the speed, up to 23 of each."""

from dataclasses import replace
from itertools import product

import pytest

from benchmarks.synthetic_clusters import SyntheticCluster
from optimus.jobs import Batch, BatchScope, Counts, TrainingMode
from optimus.models.experiment_design import next_sample
from optimus.models.speed.curve import SpeedTerms
from optimus.progress.types import SpeedSample
from tests.unit.models.measured import sample
from tests.unit.models.truths import fitted

COUNTS = [Counts(*each) for each in product(range(1, 24, 2), repeat=2) if sum(each) <= 24]
BATCH = Batch(128, BatchScope.JOB)
_CLUSTER = SyntheticCluster(mode=TrainingMode.SYNC, batch=BATCH)
CLUSTERS = [
    replace(_CLUSTER, transfer=1.0, own_link=0.3, update=2.0),
    replace(_CLUSTER, transfer=0.3, own_link=0.1, update=1.0, fixed=0.1),
    replace(_CLUSTER, transfer=1.5, own_link=1.0, push=0.3),
    replace(_CLUSTER, transfer=0.05, own_link=0.05),
    replace(_CLUSTER, transfer=0.5, own_link=0.1, update=4.0, per_worker=0.02, per_ps=0.01),
]


def designed(cluster: SyntheticCluster, number: int) -> list[SpeedSample]:
    samples: list[SpeedSample] = []
    while len(samples) < number:
        counts = next_sample(samples, COUNTS, SpeedTerms(cluster.mode, cluster.batch))
        assert counts is not None
        samples.append(sample(counts, cluster.speed(counts), seconds=60))
    return samples


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_three_samples_lead_to_counts_that_are_nearly_the_best(cluster: SyntheticCluster) -> None:
    """The fit alone took most coefficients for 0, and chose counts at 0.17 of the best."""
    model = fitted(designed(cluster, 3), cluster.mode, BATCH)
    best = max(cluster.speed(counts) for counts in COUNTS)
    assert cluster.speed(max(COUNTS, key=model.at)) > 0.8 * best


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_the_first_samples_are_not_where_no_job_would_run(cluster: SyntheticCluster) -> None:
    """All others tell little of the best counts, however uncertain the speed at them is."""
    slowest = min(cluster.speed(counts) for counts in COUNTS)
    first, second, _ = designed(cluster, 3)
    assert first.counts == Counts(1, 1)
    assert cluster.speed(second.counts) > 2 * slowest
