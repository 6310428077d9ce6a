"""The true speed: single steps computed by hand, and invariants under every placement."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.jobs import Counts, TrainingMode
from optimus.simulator.ground_truth.assignment import EVEN, AssignmentRule, ParameterAssignment
from optimus.simulator.ground_truth.job_types import JOB_TYPES, JobType
from optimus.simulator.ground_truth.speed import PhysicalSpeed, TrainingStep, slowest_of
from optimus.simulator.ground_truth.testbed import (
    TESTBED,
    Hardware,
    ModeCost,
    nodes,
    paper_hardware,
    rescale_seconds,
)
from tests.cases import cases

# 100 MB at 100 MB/s is 1 s each way; 10 operations at 1 a second; packing 0.5 s; updating 0.3 s
# (0.2 s async).
PLAIN = Hardware(
    100.0, 1.0, ModeCost(100.0, 0.003, 0.005, 0.01), ModeCost(100.0, 0.002, 0.005, 0.1), 0.0
)
SYNC = TrainingStep(TrainingMode.SYNC, 5, 2.0, 100.0)
ASYNC = TrainingStep(TrainingMode.ASYNC, 5, 2.0, 100.0)


@dataclass(frozen=True)
class Fixed(ParameterAssignment):
    """The given shares."""

    fixed: tuple[float, ...] = ()

    def shares(self, _: int, /) -> tuple[float, ...]:
        return self.fixed


def fixed(*shares: float) -> Fixed:
    return Fixed(AssignmentRule.EVEN, fixed=shares)


@cases(
    ("training", "servers", "seconds"),
    {
        "on one server nothing takes the wire": (SYNC, [(1, 1)], 10 + 0.5 + 0.3 + 0.01),
        "apart, gradients go and parameters return": (
            SYNC,
            [(1, 0), (0, 1)],
            10 + 0.5 + 2.3 + 0.01,
        ),
        "two workers share the work, one PS serves both": (
            SYNC,
            [(1, 0), (0, 2)],
            5 + 0.5 + 4.6 + 0.01,
        ),
        "the worker's own link binds where PSs are many": (
            SYNC,
            [(2, 0), (0, 1)],
            10 + 0.5 + 2.0 + 0.02,
        ),
        "half of two and two crosses: theorem 1": (SYNC, [(1, 1), (1, 1)], 5 + 0.5 + 1.3 + 0.02),
        "the worker that is alone moves the whole model": (
            SYNC,
            [(2, 1), (0, 1)],
            5 + 0.5 + 2.0 + 0.02,
        ),
        "async, one worker: its step": (ASYNC, [(1, 0), (0, 1)], 10 + 0.5 + 2.2 + 0.1),
        "async, two workers: each computes all of its step": (
            ASYNC,
            [(1, 0), (0, 2)],
            (10 + 0.5 + 4.4 + 0.1) / 2,
        ),
    },
)
def test_a_step_by_hand(
    training: TrainingStep, servers: list[tuple[int, int]], seconds: float
) -> None:
    speed = PhysicalSpeed(training, EVEN, PLAIN)
    assert 1 / speed.steps_per_second(tuple(Counts(*each) for each in servers)) == pytest.approx(
        seconds
    )


def test_async_workers_beside_the_ps_do_not_wait_for_those_apart() -> None:
    speed = PhysicalSpeed(ASYNC, EVEN, replace(PLAIN, async_=ModeCost(100.0, 0.0, 0.005, 0.0)))
    # The PS serves the one worker elsewhere for 2 s, which the worker beside it waits for as well;
    # its link is idle.
    together = speed.steps_per_second((Counts(1, 1), Counts(0, 1)))
    assert together == pytest.approx(2 / 12.5)
    # With two PSs the one apart moves all of the model in 2 s, the other half of it in 1 s.
    assert speed.steps_per_second((Counts(2, 1), Counts(0, 1))) == pytest.approx(
        1 / 11.5 + 1 / 12.5
    )


def test_the_ps_with_most_of_the_model_is_the_last() -> None:
    apart = (Counts(1, 0), Counts(1, 0), Counts(0, 2))
    even = PhysicalSpeed(SYNC, fixed(0.5, 0.5), PLAIN).steps_per_second(apart)
    uneven = PhysicalSpeed(SYNC, fixed(0.9, 0.1), PLAIN).steps_per_second(apart)
    assert 1 / even == pytest.approx(5 + 0.5 + 2.3 + 0.02)
    assert 1 / uneven == pytest.approx(5 + 0.5 + 0.9 * 4.6 + 0.02)


def test_sync_waits_for_the_slowest_and_async_loses_its_part() -> None:
    servers = (Counts(1, 4),)
    sync, asynchronous = PhysicalSpeed(SYNC, EVEN, PLAIN), PhysicalSpeed(ASYNC, EVEN, PLAIN)
    assert sync.steps_per_second(servers, (0.5,)) == pytest.approx(
        sync.steps_per_second(servers) / 2
    )
    assert asynchronous.steps_per_second(servers, (0.5,)) == pytest.approx(
        asynchronous.steps_per_second(servers) * 3.5 / 4
    )


@pytest.mark.parametrize("workers", [1, 2, 5, 20])
def test_the_slowest_of_some_is_as_slow_as_in_random_draws(workers: int) -> None:
    drawn = np.random.default_rng(1).normal(size=(40_000, workers)).max(axis=1)
    assert slowest_of(workers) == pytest.approx(drawn.mean(), abs=0.03)


placements = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6
).filter(
    lambda servers: sum(ps for ps, _ in servers) > 0 and sum(workers for _, workers in servers) > 0
)
kinds = st.sampled_from(JOB_TYPES)
modes = st.sampled_from(list(TrainingMode))


def of(
    kind: JobType, mode: TrainingMode, assignment: ParameterAssignment | None = None
) -> PhysicalSpeed:
    return PhysicalSpeed(
        TrainingStep(mode, kind.batch, kind.gflop_per_example, kind.model_mb),
        assignment or EVEN,
        TESTBED,
    )


@given(kinds, modes, placements)
def test_sharing_servers_never_slows_down(
    kind: JobType, mode: TrainingMode, servers: list[tuple[int, int]]
) -> None:
    """Each container has a link of its own, as in the paper's equation 2: together is never worse
    than apart."""
    speed = of(kind, mode)
    counts = tuple(Counts(*each) for each in servers if each != (0, 0))
    ps, workers = sum(each.ps for each in counts), sum(each.workers for each in counts)
    apart = (Counts(1, 0),) * ps + (Counts(0, 1),) * workers
    found = speed.steps_per_second(counts)
    assert found >= speed.steps_per_second(apart) * (1 - 1e-12)
    assert found <= speed.steps_per_second((Counts(ps, workers),)) * (1 + 1e-12)


@given(kinds, modes, placements, st.integers(0, 1000))
def test_uneven_parts_never_speed_up(
    kind: JobType, mode: TrainingMode, servers: list[tuple[int, int]], seed: int
) -> None:
    apart = tuple(
        each for ps, workers in servers for each in (Counts(1, 0),) * ps + (Counts(0, 1),) * workers
    )
    uneven = of(
        kind, mode, ParameterAssignment(AssignmentRule.MXNET, kind.sizes, seed)
    ).steps_per_second(apart)
    assert uneven <= of(kind, mode).steps_per_second(apart) * (1 + 1e-12)


@pytest.mark.parametrize("network", [0.0, 0.5, 1.0])
@cases(
    ("mode", "images", "constant", "per_worker", "per_ps"),
    {
        "sync: 1.02 s an image, split over the workers": (TrainingMode.SYNC, 32, 2.78, 4.92, 0.02),
        "async: two images for each worker": (TrainingMode.ASYNC, 2, 2.83 - 2 * 1.02, 3.92, 0.11),
    },
)
def test_the_testbed_gives_back_the_papers_table_2(
    network: float,
    mode: TrainingMode,
    images: int,
    constant: float,
    per_worker: float,
    per_ps: float,
) -> None:
    training = TrainingStep(mode, images, 24.6, 100.0)
    speed = PhysicalSpeed(training, EVEN, replace(paper_hardware(network), jitter=0.0))
    for ps, workers in ((1, 1), (1, 4), (4, 4), (6, 4), (3, 8)):
        found = speed.steps_per_second((Counts(1, 0),) * ps + (Counts(0, 1),) * workers)
        sync = mode is TrainingMode.SYNC
        compute = 1.02 * images / (workers if sync else 1)
        seconds = compute + constant + per_worker * workers / ps + per_ps * ps
        assert found == pytest.approx((1 if sync else workers) / seconds)


def test_the_testbed_is_the_papers() -> None:
    cores = sorted(node.allocatable["cpu"] // 1000 for node in nodes())
    assert cores == [8] * 6 + [16] * 7
    assert sum(node.allocatable["nvidia.com/gpu"] for node in nodes()) == 12
    assert len(nodes(3)) == 39
    assert len({node.name for node in nodes(3)}) == 39
    assert rescale_seconds(0) < rescale_seconds(100) < 30
