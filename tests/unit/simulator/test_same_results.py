"""Speed-ups change no result: recorded ones, and what is kept up to date beside its slow version.

Recorded are policies whose decisions rest on no fit: models improve, and these results stay. They
were recorded before the simulator kept anything up to date between events. The file is written anew
by ``python -m tests.unit.simulator.test_same_results``."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from optimus.jobs import Counts, Role
from optimus.resources import CPU
from optimus.simulator.cluster import SimulatedCluster, SimulatedPhase
from optimus.simulator.engine import simulate
from optimus.simulator.forecasts import TrueForecasts
from optimus.simulator.presets import preset
from optimus.simulator.results import GPU, TimelinePoint
from optimus.simulator.streams import Purpose, stream
from optimus.simulator.training import Training
from optimus.simulator.workload import WORKLOADS
from optimus.snapshot import ClusterSnapshot
from tests.unit.properties import sampled
from tests.unit.simulator.workloads import JobParameters, job

RECORDED = Path(__file__).parents[2] / "data" / "simulations" / "completion.csv"
POLICIES = ("optimus", "optimus-paper", "drf", "tetris", "srtf", "smd", "gavel-las", "dl2")


SEEDS = (1, 2)


def completions(seeds: Sequence[int]) -> Iterator[str]:
    """Every job's end and restarts, under true forecasts."""
    yield "policy,seed,job,finished_at,restarts,pauses"
    for policy in POLICIES:
        for seed in seeds:
            workload = WORKLOADS["bursts"](24, stream(seed, Purpose.WORKLOAD))
            found = simulate(workload, preset(policy, TrueForecasts()), seed)
            for each in found.jobs:
                yield (
                    f"{policy},{seed},{each.uid},{each.finished_at:.3f},"
                    f"{each.restarts},{each.pauses}"
                )


def test_results_are_those_recorded() -> None:
    header, *rows = RECORDED.read_text().splitlines()
    seeds = sampled(SEEDS)
    of_seeds = [row for row in rows if int(row.split(",")[1]) in seeds]
    assert list(completions(seeds)) == [header, *of_seeds]


def slow_point(cluster: SimulatedCluster) -> TimelinePoint:
    """The cluster as it is now, counted pod by pod."""
    states = cluster.states.values()
    pods = [(pod, state) for state in states for pod in state.pods]
    roles = [pod.replica.role for pod, _ in pods if pod.replica is not None]
    training = sum(state.phase is SimulatedPhase.TRAINING for state in states)
    placed = sum(bool(state.pods) for state in states)
    cpu = dict.fromkeys(Role, 0)
    for pod, state in pods:
        assert pod.replica is not None
        spec = state.job.ps if pod.replica.role is Role.PS else state.job.worker
        cpu[pod.replica.role] += spec.resources[CPU]
    gpus = sum(pod.resources[GPU] for pod, _ in pods)
    tasks = roles.count(Role.PS), roles.count(Role.WORKER), cpu[Role.PS], cpu[Role.WORKER]
    return TimelinePoint(
        cluster.now, training, placed - training, len(states) - placed, *tasks, gpus
    )


@pytest.mark.parametrize("policy", ["optimus", "optimus-paper"])
def test_what_is_kept_between_events_is_what_the_pods_say(policy: str) -> None:
    seen = list[int]()

    def watch(cluster: SimulatedCluster) -> None:
        snapshot = cluster.snapshot()
        pods = (pod for each in cluster.states.values() for pod in (*each.pods, *each.coming))
        slow = ClusterSnapshot.of(
            cluster.now, (each.job for each in cluster.states.values()), cluster.nodes, pods
        )
        assert snapshot == slow
        assert snapshot.free() == slow.free()
        for each in slow.jobs:
            assert snapshot.bound_counts(each.uid) == slow.bound_counts(each.uid)
        assert TimelinePoint.of(cluster) == slow_point(cluster)
        seen.append(len(snapshot.pods))

    workload = WORKLOADS["bursts"](12, stream(3, Purpose.WORKLOAD))
    simulate(workload, preset(policy, TrueForecasts()), 3, watch)
    assert max(seen) > 20


class CarefulTraining(Training):
    """Looks at every step whether its speed changes, and forgets what it has shown."""

    def advance(self, to: float) -> None:
        self._quiet_until = -np.inf
        super().advance(to)
        self._shown, self._shown_losses = None, (0, ())


def test_training_in_small_steps_takes_no_other_course() -> None:
    truth = job("a", JobParameters(epochs=40, noise=0.05))
    truth = replace(truth, straggling=WORKLOADS["uniform"].config.straggling)
    quick, careful = Training(truth, 1), CarefulTraining(truth, 1)
    times = np.cumsum(np.random.default_rng(1).exponential(0.7, 900))
    for each in (quick, careful):
        each.begin(0.0, (Counts(1, 1),))
    for number, at in enumerate(times.tolist()):
        for each in (quick, careful):
            each.advance(at)
            if number % 100 == 99:
                each.stop(at)
                each.begin(at, (Counts(1, 1 + number // 100),))
        assert quick.progress() == careful.progress()
        assert (quick.epochs, quick.next_at) == (careful.epochs, careful.next_at)
    assert quick.is_finished


def test_an_autoscaler_that_looks_every_half_minute_misses_no_job() -> None:
    """All of them end, and a job that arrives is placed at once."""
    workload = WORKLOADS["bursts"](12, stream(3, Purpose.WORKLOAD))
    usual = preset("optimus")
    rare = replace(usual, loop=replace(usual.loop, look_seconds=30.0))
    looks = simulate(workload, rare, 3)
    assert len(looks.jobs) == 12
    assert looks.jobs != simulate(workload, usual, 3).jobs
    assert looks.jobs[0].placed_at == looks.jobs[0].arrived_at


if __name__ == "__main__":
    RECORDED.write_text("\n".join(completions(SEEDS)) + "\n")
