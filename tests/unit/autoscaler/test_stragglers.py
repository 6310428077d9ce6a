"""Jobs with a worker that is far slower than the others."""

import dataclasses
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from autoscaler.stragglers import (
    ReplacementConfig,
    StragglerReplacer,
    _JobStragglers,
    _why_not_now,
    lost_share,
)
from optimus.interval import IntervalConfig
from optimus.jobs import Counts, TrainingMode
from optimus.kube.nodes import ClusterNode
from optimus.kube.pods import Pod
from optimus.kube.results import Refused
from optimus.kube.training_jobs import TrainingJob
from optimus.lifecycle import Avoided, JobRecord
from optimus.models.forecast import Forecast
from optimus.nodes import Node
from optimus.progress.stragglers import Straggler, StragglerConfig
from optimus.progress.types import LogLine, LogRead
from optimus.rescale.purpose import RescalePurpose
from optimus.rescale.words import End, Outcome, Step
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.autoscaler.controller_harness import ControllerHarness
from tests.unit.autoscaler.fake_cluster import FakeCluster
from tests.unit.autoscaler.fake_job import FakeJob, tf_job

CONFIG = ReplacementConfig(
    detection=StragglerConfig(windows=3, window_seconds=4.0),
    interval=IntervalConfig(rescale_seconds=5, cooldown_seconds=10),
    avoid_seconds=1_000.0,
)


@dataclass
class NodesCluster(FakeCluster):
    """Nodes of two CPUs each, on which pods go as the extender places them: not on avoided nodes,
    if all fit on others. Workers print their own speed, which is lower on slow nodes."""

    names: tuple[str, ...] = ("n0", "n1", "n2", "n3", "n4")
    slow: dict[str, float] = field(default_factory=dict)
    """By a node's name, or a worker's, its part of the usual speed."""

    mute: bool = False
    """Workers print no speed of their own."""

    def _make_pods(self, fake: FakeJob) -> None:
        super()._make_pods(fake)
        profile = self.profiles.get(fake.name)
        avoided = {each.node for each in profile.status.avoided_nodes} if profile else set()
        others = [name for name in self.names if name not in avoided]
        names = others if 2 * len(others) >= len(fake.pods) else list(self.names)
        for number, pod in enumerate(reversed(fake.pods)):
            pod["spec"]["nodeName"] = names[number % len(names)]

    def nodes_of(self, name: str) -> list[str]:
        return [pod["spec"]["nodeName"] for pod in self.jobs[name].pods]

    def decoded(self) -> tuple[list[TrainingJob], list[ClusterNode], list[Pod]]:
        jobs, _, pods = super().decoded()
        capacity = Resources(cpu=2000, pods=110)
        return (
            jobs,
            [ClusterNode(name=name, node=Node(name, capacity)) for name in self.names],
            pods,
        )

    def read(
        self, pod: Pod, *, since: float | None = None, last_lines: int | None = None
    ) -> LogRead | Refused:
        read = super().read(pod, since=since)
        if self.mute or not isinstance(read, LogRead):
            return read
        part = min(self.slow.get(pod.node or "", 1.0), self.slow.get(pod.name, 1.0))
        lines = [
            LogLine(line.at, f"{line.text} samples_per_sec={100 * part}") for line in read.lines
        ]
        return LogRead(lines, read.truncated)


def job(workers: int = 3, **annotations: str) -> FakeJob:
    """One that trains on at its counts."""
    fixed = {"min_ps": "1", "max_ps": "1", "min_workers": f"{workers}", "max_workers": f"{workers}"}
    mode = {"training_mode": "async", "worker_batch_size": "32"}
    return tf_job("a", 1, workers, target_loss="0.0501", **fixed, **mode, **annotations)


@pytest.fixture
def cluster() -> NodesCluster:
    return NodesCluster(slow={"n1": 0.2})


@pytest.fixture
def harness(cluster: NodesCluster) -> ControllerHarness:
    return ControllerHarness(cluster, stragglers=CONFIG)


def found(harness: ControllerHarness) -> str:
    """What the profile says of stragglers, once it does."""
    harness.run_till(lambda: harness.status("a").straggler)
    return harness.status("a").straggler


def replacer_of(harness: ControllerHarness) -> StragglerReplacer:
    replacer = harness.controller._stragglers
    assert replacer is not None
    return replacer


def gauge(harness: ControllerHarness) -> float | None:
    return harness.metrics.registry.get_sample_value("optimus_autoscaler_stragglers")


def test_a_job_with_a_straggler_is_restarted_without_its_node(
    cluster: NodesCluster, harness: ControllerHarness
) -> None:
    fake = cluster.submit(job())
    said = found(harness)
    assert said.startswith("worker 1 on n1 trains at 20 % of the median of 3 workers")
    assert said.endswith("; the job is restarted on other nodes")
    assert gauge(harness) == 1
    until = harness.status("a").avoided_nodes
    assert [each.node for each in until] == ["n1"]
    harness.run_till(lambda: "Rescaled" in cluster.reasons("a"))
    assert (fake.runs, fake.counts) == (2, Counts(1, 3))
    assert "n1" not in cluster.nodes_of("a")
    reasons = cluster.reasons("a")
    assert [each for each in reasons if each in ("StragglerFound", "Rescaling", "Rescaled")] == [
        "StragglerFound",
        "Rescaling",
        "Rescaled",
    ]
    (why,) = cluster.messages("Rescaling")
    assert "worker 1 on n1" in why
    record = harness.state().record
    assert (len(record.replacements), len(record.moves), len(record.prices)) == (1, 1, 1)
    harness.run_till(lambda: not harness.status("a").straggler)
    harness.run(60)
    assert (fake.runs, gauge(harness)) == (2, 0)
    assert harness.status("a").avoided_nodes == until


@cases(
    ("annotations", "why"),
    {
        "never rescaled": ({"rescale": "never"}, "optimus.dl/rescale is never"),
        "paused": ({"pause": "true"}, "paused by its user: optimus.dl/pause"),
        "recommended for only": (
            {"manage": "recommend"},
            "nothing is changed: recommendations only",
        ),
    },
)
def test_what_would_be_done_is_said_where_nothing_is(
    cluster: NodesCluster, harness: ControllerHarness, annotations: dict[str, str], why: str
) -> None:
    fake = cluster.submit(job(3, **annotations))
    assert found(harness).endswith(f"; nothing is done: {why}")
    harness.run(60)
    assert (fake.runs, fake.suspended, harness.status("a").avoided_nodes) == (1, False, ())
    assert cluster.reasons("a").count("StragglerFound") == 1, "figures alone make no other Event"


def test_a_job_that_does_not_fit_without_the_node_stays(
    cluster: NodesCluster, harness: ControllerHarness
) -> None:
    cluster.names = ("n0", "n1")
    fake = cluster.submit(job())
    assert found(harness).endswith("; nothing is done: it does not fit without n1")
    harness.run(30)
    assert fake.runs == 1
    cluster.names = ("n0", "n1", "n2")
    harness.run_till(lambda: fake.runs == 2)
    assert "n1" not in cluster.nodes_of("a")


def test_room_that_is_kept_for_a_rescale_of_another_job_is_not_used() -> None:
    cluster = NodesCluster(names=("n0", "n1", "n2"))
    harness = ControllerHarness(cluster, stragglers=CONFIG)
    cluster.submit(job())
    other = cluster.submit(tf_job("b", 1, 1, target_loss="0.0501"))
    harness.run(2)
    other.pods.clear()
    managed, replacer = harness.controller.managed.states, replacer_of(harness)
    states, observation = (managed["uid-a"], managed["uid-b"]), cluster.observe(cluster.at)
    found = _JobStragglers(SLOW)
    assert replacer._why_no_room(managed, states[0], found, observation) == ""
    states[1].begin("i", cluster.at, Counts(1, 1), "why", RescalePurpose.INTERVAL)
    assert states[1].rescale is not None
    record = dataclasses.replace(states[1].rescale.record, step=Step.EMPTY)
    states[1].rescale = dataclasses.replace(states[1].rescale, record=record)
    why = replacer._why_no_room(managed, states[0], found, observation)
    assert why == "it does not fit without n1"


def test_a_worker_that_stays_slow_restarts_its_job_twice_a_day_at_most(
    cluster: NodesCluster, harness: ControllerHarness
) -> None:
    cluster.slow = {"a-worker-1": 0.1}
    fake = cluster.submit(job())
    harness.run_till(lambda: "2 times within 24 h" in harness.status("a").straggler)
    assert fake.runs == 3
    assert len(harness.status("a").avoided_nodes) == 2
    harness.run(60)
    assert fake.runs == 3
    state = harness.state()
    day_ago = harness.cluster.at - 86_401
    state.record = dataclasses.replace(state.record, replacements=(day_ago, day_ago))
    # With every slow node avoided in turn it has to fit on the rest.
    cluster.names = tuple(f"n{number}" for number in range(9))
    harness.run_till(lambda: fake.runs == 4)


@cases(
    ("interval", "why"),
    {
        "cooldown": (
            IntervalConfig(cooldown_seconds=1_000),
            "cooldown: rescaled within the last 1000 s",
        ),
        "rate": (
            IntervalConfig(cooldown_seconds=1, moves_per_hour=1),
            "rescaled 1 times within an hour",
        ),
    },
)
def test_the_limits_of_rescales_hold(
    cluster: NodesCluster, interval: IntervalConfig, why: str
) -> None:
    harness = ControllerHarness(cluster, stragglers=dataclasses.replace(CONFIG, interval=interval))
    fake = cluster.submit(job())
    harness.run(3)
    state = harness.state()
    state.record = dataclasses.replace(
        state.record, last_rescaled_at=cluster.at, moves=(cluster.at,)
    )
    assert found(harness).endswith(f"; nothing is done: {why}")
    assert fake.runs == 1


def submit_two(cluster: NodesCluster) -> None:
    """Two jobs, a and b, each with a slow worker; there are nodes for both without theirs."""
    cluster.names = tuple(f"n{number}" for number in range(9))
    first, second = job(), job()
    renamed = json.loads(json.dumps(second.manifest).replace('"a"', '"b"').replace("-a", "-b"))
    cluster.submit(first)
    cluster.submit(FakeJob(renamed))


class BrokenSpeed:
    """A speed model with a fault."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        raise RuntimeError("a fault of this software")


def test_a_fault_that_concerns_one_job_costs_the_others_nothing(
    cluster: NodesCluster, harness: ControllerHarness
) -> None:
    submit_two(cluster)
    harness.run(3)

    def second_was_restarted() -> bool:
        harness.state().forecasts.current = Forecast(BrokenSpeed(), 100)
        return cluster.jobs["b"].runs == 2

    harness.run_till(second_was_restarted)
    assert cluster.jobs["a"].runs == 1
    faults = {"where": "stragglers"}
    name = "optimus_autoscaler_faults_total"
    assert harness.metrics.registry.get_sample_value(name, faults)


@cases(
    ("workers", "mute"),
    {"two workers": (2, False), "workers that print no speed of their own": (3, True)},
)
def test_nothing_is_found_where_nothing_can_be_compared(
    cluster: NodesCluster, harness: ControllerHarness, workers: int, mute: bool
) -> None:
    cluster.mute = mute
    fake = cluster.submit(job(workers))
    harness.run(120)
    assert (fake.runs, harness.status("a").straggler) == (1, "")
    assert "StragglerFound" not in cluster.reasons("a")


def test_another_autoscaler_goes_on_with_a_replacement(
    cluster: NodesCluster, harness: ControllerHarness
) -> None:
    cluster.checkpoints = False
    fake = cluster.submit(job())
    harness.run_until("a", "WaitingForCheckpoint")
    avoided = harness.state().record.avoided
    harness.restart()
    cluster.checkpoints = True
    harness.run_till(lambda: "Rescaled" in cluster.reasons("a"))
    assert fake.runs == 2
    assert "n1" not in cluster.nodes_of("a")
    assert harness.state().record.avoided == avoided
    assert len(harness.state().record.replacements) == 1


def test_a_node_is_avoided_for_a_time(cluster: NodesCluster, harness: ControllerHarness) -> None:
    cluster.submit(job())
    harness.run_till(lambda: "Rescaled" in cluster.reasons("a"))
    state = harness.state()
    assert harness.status("a").avoided_nodes
    state.record = dataclasses.replace(state.record, avoided=(Avoided("n1", cluster.at + 2),))
    harness.run(10)
    assert harness.status("a").avoided_nodes == ()


def test_a_job_that_cannot_be_placed_gets_its_old_nodes_back(
    cluster: NodesCluster, harness: ControllerHarness
) -> None:
    fake = cluster.submit(job())
    harness.run_till(lambda: fake.suspended)
    cluster.quota = 2  # two of its pods get no node
    harness.run_till(lambda: "RollingBack" in cluster.reasons("a"))
    cluster.quota = None
    harness.run_till(lambda: len(fake.pods) == 4 and not fake.suspended)
    assert harness.status("a").avoided_nodes == ()
    assert harness.state().record.placement_failures == ()
    assert fake.counts == Counts(1, 3)


@cases(
    ("change", "why"),
    {
        "nothing speaks against it": ({}, ""),
        "a trainer has succeeded": ({"is_ending": True}, "the job is about to end"),
        "notified": ({"completion_requested_at": 1.0}, "the job is about to end"),
        "lost pods": ({"half_bound_since": 1.0}, "some of its pods have no node"),
        "profiling run": (
            {"record": JobRecord(profiling_since=1.0)},
            "its speed is being measured",
        ),
        "its wait for a checkpoint timed out": (
            {"record": JobRecord(checkpoint_missed=True)},
            "it waits for a checkpoint",
        ),
    },
)
def test_when_a_job_is_not_stopped(
    cluster: NodesCluster, harness: ControllerHarness, change: dict[str, object], why: str
) -> None:
    cluster.submit(job())
    harness.run(3)
    state = harness.state()
    for name, value in change.items():
        setattr(state.gang if hasattr(state.gang, name) else state, name, value)
    assert _why_not_now(state, cluster.at) == why


def test_a_job_that_was_moved_to_be_measured_may_still_return_to_its_counts(
    cluster: NodesCluster, harness: ControllerHarness
) -> None:
    cluster.submit(job())
    harness.run(1)
    state = harness.state()
    state.record = dataclasses.replace(state.record, own_counts=Counts(1, 2))
    state.begin("i", cluster.at, Counts(1, 3), "why", RescalePurpose.STRAGGLER)
    assert state.rescale is not None
    state.rescale_ended(End(Outcome.REACHED, state.rescale.record, "over"), cluster.at)
    assert state.record.own_counts == Counts(1, 2)


class ConstantSpeed:
    """One step a second at any counts."""

    def steps_per_second(self, ps: ArrayLike, workers: ArrayLike) -> NDArray[np.float64]:
        return np.ones(np.broadcast(ps, workers).shape)


@cases(
    ("remaining_steps", "goal_met", "price_seconds", "why"),
    {
        "much is left": (1000, False, 60.0, ""),
        "a sixth of what is left is less than the restart costs": (
            100,
            False,
            60.0,
            "a restart costs more time than it saves",
        ),
        "it starts fast": (100, False, 5.0, ""),
        "at its goal": (0, True, 5.0, "its goal is met"),
    },
)
def test_a_restart_has_to_save_more_than_it_costs(
    remaining_steps: float, goal_met: bool, price_seconds: float, why: str
) -> None:
    cluster = NodesCluster()
    harness = ControllerHarness(cluster, stragglers=CONFIG)
    cluster.submit(job())
    harness.run(3)
    state = harness.state()
    state.forecasts.current = Forecast(ConstantSpeed(), remaining_steps, goal_met=goal_met)
    state.record = dataclasses.replace(state.record, prices=(price_seconds,) * 2)
    assert replacer_of(harness)._why_not_worth_it(state, SLOW) == why


SLOW = (Straggler(1, "n1", 0.4, 3, 3),)


@cases(
    ("mode", "stragglers", "share"),
    {
        "its own steps": (TrainingMode.ASYNC, SLOW, 0.2),
        "all wait for it": (TrainingMode.SYNC, SLOW, 0.6),
        "those of both": (TrainingMode.ASYNC, (*SLOW, Straggler(2, "n2", 0.1, 3, 3)), 0.5),
        "the slowest": (TrainingMode.SYNC, (*SLOW, Straggler(2, "n2", 0.1, 3, 3)), 0.9),
    },
)
def test_what_stragglers_cost(
    mode: TrainingMode, stragglers: Sequence[Straggler], share: float
) -> None:
    cluster = NodesCluster()
    harness = ControllerHarness(cluster)
    cluster.submit(job())
    harness.run(1)
    state = harness.state()
    state.job = dataclasses.replace(state.job, mode=mode)
    assert lost_share(state, stragglers) == pytest.approx(share)
