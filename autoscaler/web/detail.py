"""The page's views of one job and of the nodes, made of a copy when they are asked for."""

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Final

import msgspec
from cachetools import LRUCache

from autoscaler.web.charts import CurveChart, SpeedChart, curve_chart, speed_chart
from autoscaler.web.copies import ClusterCopy, JobCopy
from autoscaler.web.history import CountsPoint, DecisionEntry, JobTimeline, RescaleEntry
from autoscaler.web.job_events import BoundedSource
from autoscaler.web.rows import JobRow, has_ended, row_of
from autoscaler.web.stored import LOG_BUSY, ReadTraining, Stored, read_training
from optimus.allocation import NO_HISTORY, JobHistory
from optimus.errors import NotReady
from optimus.interval.decision_settings import DecisionSettings
from optimus.jobs import (
    TRAINERS,
    BatchScope,
    Counts,
    Job,
    JobKey,
    Role,
    TargetEpochs,
    TargetSteps,
)
from optimus.kube.profile_codec import learned
from optimus.lifecycle import JobRecord, recorded_history
from optimus.models.forecast import Forecast, current_loss
from optimus.nodes import Node
from optimus.progress.types import NOTHING, TrainingProgress
from optimus.snapshot import BoundPod
from optimus.what_if import counts as what_if
from optimus.what_if.advice import Advice
from optimus.what_if.counts import CountsQuestion, DecisionBasis
from optimus.what_if.text import advice_sentences, counts_sentences

_MOST_REMEMBERED: Final = 32

_ONE_AT_A_TIME: Final = threading.Lock()
"""A placement on thousands of nodes takes a good part of a second of a core."""

_SHOWN: Final = (Role.PS, *TRAINERS, Role.EVALUATOR, Role.SCHEDULER)
"""Every role, in the order in which a node's replicas are listed."""

_MOST_NAMED: Final = 12
"""Jobs named for one node; the others are counted."""


class PageAnswer(msgspec.Struct, frozen=True):
    """When a job would be done at other counts, and that in sentences."""

    answer: what_if.WhatIf
    sentences: list[str]


class Replica(msgspec.Struct, frozen=True, rename="camel"):
    """One pod of a job."""

    role: str
    index: int
    phase: str
    leaving: bool
    restarts: int
    problem: str


class NodeReplicas(msgspec.Struct, frozen=True):
    """The replicas of a job on one node; without a name: those that have none."""

    node: str
    kind: str
    replicas: list[Replica]


class JobDetail(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The view of one job."""

    at: float
    row: JobRow
    reason: str
    left_alone: str
    facts: list[tuple[str, str]]
    """What holds for a managed job, beside what its user has written, by name."""

    charts: list[CurveChart]
    speed: SpeedChart | None
    places: list[NodeReplicas]
    counts: list[CountsPoint]
    rescales: list[RescaleEntry]
    decisions: list[DecisionEntry]
    price_seconds: float
    """What a rescale is taken to cost it; ``price_measured``: by its own last rescales."""

    price_measured: bool
    profiling_runs: int
    """Counted apart from the rescales of its row."""

    trained: str
    """How far it has trained: ``30 of 60 epochs, step 3,000``."""

    trained_seconds: float
    deadline_probability: float | None
    """That the goal is met by the deadline at the present counts; ``None`` without one of both."""

    warnings: list[str]
    advice: list[str]
    """Sentences on other counts, of a job that is not managed."""


class NodeRow(msgspec.Struct, frozen=True, rename="camel"):
    """One node; amounts by resource, requested and allocatable."""

    name: str
    kind: str
    cordoned: bool
    taints: list[str]
    amounts: dict[str, tuple[int, int]]
    jobs: list[tuple[str, dict[str, int]]]
    """Jobs with the number of their replicas here, by role."""

    more_jobs: int
    pods: int


class NodePage(msgspec.Struct, frozen=True):
    """Some of the nodes, and how many there are."""

    at: float
    total: int
    offset: int
    nodes: list[NodeRow]


class Details:
    """Makes views; remembers the last fits of jobs that are known by their profile alone."""

    def __init__(self, settings: DecisionSettings, source: BoundedSource) -> None:
        """Logs are read from ``source``."""
        self._guard, self._settings = threading.Lock(), settings
        price = settings.interval.price_seconds(NO_HISTORY)
        read = partial(read_training, source, price)
        # A log of thousands of lines takes a good part of a second of a core.
        self._logs: Stored[ReadTraining] = Stored(read, LOG_BUSY, seconds=30.0, most=2)
        self._learned: LRUCache[
            str, tuple[object, TrainingProgress | None, Forecast | NotReady | None, JobRecord]
        ] = LRUCache(_MOST_REMEMBERED)
        self._index: tuple[ClusterCopy | None, dict[JobKey, str]] = (None, {})
        self._nodes: tuple[ClusterCopy | None, list[NodeRow]] = (None, [])

    def find(self, copy: ClusterCopy, key: JobKey) -> JobCopy | None:
        """The job of this name; where two kinds have one, that which is managed."""
        known, index = self._index
        if known is not copy:
            in_order = sorted(copy.jobs.values(), key=lambda job: bool(job.status.phase))
            index = {job.key: job.uid for job in in_order}
            self._index = copy, index
        uid = index.get(key)
        return None if uid is None else copy.jobs.get(uid)

    def learned(
        self, found: JobCopy, at: float
    ) -> tuple[TrainingProgress | None, Forecast | NotReady | None, JobRecord]:
        """Return what is known of a job's training: by the loop, or else by its profile."""
        if found.progress is not None:
            return found.progress, found.forecast, found.record or JobRecord()
        if found.status.state is None or found.job is None:
            return None, None, JobRecord()
        with self._guard:
            known = self._learned.get(found.uid)
            if known is None or known[0] is not found.status:
                now = learned(found.status.state, found.job, at)
                known = found.status, now.progress, now.forecast, now.record
                self._learned[found.uid] = known
        return known[1:]

    def job(self, copy: ClusterCopy, found: JobCopy, timeline: JobTimeline) -> JobDetail:
        """The view of one job."""
        progress, forecast, record = self.learned(found, copy.at)
        job, status, row = found.job, found.status, row_of(found)
        advice: list[str] = []
        if progress is None and job is not None and any(pod.running for pod in found.pods):
            read = self._logs.of(found)
            if isinstance(read, NotReady):
                advice = [f"Nothing is known of its training: {read}."]
            else:
                told, until = read
                progress, row = told.progress, _row_by_log(row, told, until)
                advice = list(advice_sentences(told))
        known = job is not None and progress is not None
        warnings = [status.complaint, status.straggler, status.memory_pressure]
        warnings += status.failed_counts
        return JobDetail(
            at=copy.at,
            row=row,
            reason=found.reason,
            left_alone="" if job is None else job.left_alone or "",
            facts=[] if job is None else _facts(job, found),
            charts=[curve_chart(job.goal, progress, forecast, ended=has_ended(found))]
            if known and job and progress
            else [],
            speed=speed_chart(job, progress, forecast) if known and job and progress else None,
            places=_places(found, copy.observation.node_kinds),
            counts=list(timeline.counts),
            rescales=list(timeline.rescales),
            decisions=list(timeline.decisions),
            price_seconds=round(self._price_seconds(copy, found), 1),
            price_measured=bool(record.prices),
            profiling_runs=len(record.profiled),
            trained=trained_text(job, progress) if known and job and progress else "",
            trained_seconds=round(status.trained_seconds, 1),
            deadline_probability=_deadline_probability(job, forecast, found.decided_at or copy.at),
            warnings=[warning for warning in warnings if warning],
            advice=advice,
        )

    def what_if(self, copy: ClusterCopy, found: JobCopy, counts: Counts) -> PageAnswer:
        """Return when the job would be done at these counts."""
        known, snapshot = self._basis(copy, found), copy.observation.snapshot
        asked = found.job, known, counts, copy.at, self._settings, snapshot, copy.claims
        with _ONE_AT_A_TIME:
            answer = what_if.answer(CountsQuestion(*asked))
        return PageAnswer(answer, list(counts_sentences(answer)))

    def _price_seconds(self, copy: ClusterCopy, found: JobCopy) -> float:
        return self._settings.interval.price_seconds(self._basis(copy, found).history)

    def _basis(self, copy: ClusterCopy, found: JobCopy) -> DecisionBasis:
        """Return what a decision about the job would rest on."""
        progress, forecast, record = self.learned(found, copy.at)
        forecast_at = found.decided_at or copy.at
        history = NO_HISTORY
        if found.job is not None:
            moving = None if found.rescale is None else found.rescale.current_target
            history = JobHistory(
                **recorded_history(record, found.job), held=found.held, rescaling_to=moving
            )
        return DecisionBasis(forecast, forecast_at, progress or NOTHING, history)

    def nodes(self, copy: ClusterCopy, text: str, offset: int, most: int) -> NodePage:
        """The nodes with a text in their name, kind or jobs, in the order of their names."""
        known, rows = self._nodes
        if known is not copy:
            rows = node_rows(copy)
            self._nodes = copy, rows
        if text:
            rows = [row for row in rows if _mentions(row, text.lower())]
        return NodePage(copy.at, len(rows), offset, rows[offset : offset + most])


def _row_by_log(row: JobRow, told: Advice, until: float) -> JobRow:
    """Return the row of a job without a profile with what its log shows."""
    return msgspec.structs.replace(
        row,
        loss=current_loss(told.progress),
        speed=told.steps_per_second,
        percent=None if told.done is None else round(100 * told.done),
        remaining=told.left,
        ends_at=None if told.left is None else until + told.left.median,
        outlook=told.unlikely,
    )


def _mentions(row: NodeRow, text: str) -> bool:
    return any(text in each.lower() for each in (row.name, row.kind, *(job[0] for job in row.jobs)))


def trained_text(job: Job, progress: TrainingProgress) -> str:
    """Return how far a job has trained, of its goal or of the end that its program has declared."""
    goal, declared = job.goal, progress.declared
    epochs = goal.epochs if isinstance(goal, TargetEpochs) else declared.epochs
    steps = goal.steps if isinstance(goal, TargetSteps) else declared.steps
    parts = []
    if progress.epoch is not None:
        parts.append(f"{_of(progress.epoch, epochs)} epochs")
    if progress.step is not None and parts:
        parts.append(f"step {_of(progress.step, steps)}")
    elif progress.step is not None:
        parts.append(f"{_of(progress.step, steps)} steps")
    return ", ".join(parts)


def _of(done: float, planned: float | None) -> str:
    texts = (f"{each:,.1f}".removesuffix(".0") for each in (done, planned) if each)
    return " of ".join(texts) or "0"


def _deadline_probability(
    job: Job | None, forecast: Forecast | NotReady | None, at: float
) -> float | None:
    if job is None or job.finish_by is None:
        return None
    if not isinstance(forecast, Forecast) or forecast.is_expected:
        return None
    return round(forecast.probability_within(job.finish_by - at, job.counts), 3)


def _facts(job: Job, found: JobCopy) -> list[tuple[str, str]]:
    if found.status.phase is None:
        return []
    bounds, step = job.bounds, found.status.checkpoint_step
    servers = f"{bounds.min_ps} to {bounds.max_ps or 'any'} PS, " if job.counts.ps else ""
    named = {
        "bounds": f"{servers}{bounds.min_workers} to {bounds.max_workers or 'any'} workers",
        "training": _training(job),
        "rescale": f"{job.rescale}",
        "workload": job.workload or "",
        "last checkpoint": "" if step is None else f"step {step}",
        "saves on stop": found.status.saves_on_stop,
        "declared end": found.status.declared_end,
    }
    return [(name, value) for name, value in named.items() if value]


def _training(job: Job) -> str:
    """``synchronous, a step takes 64 examples of each worker``."""
    mode = f"{job.mode}hronous"
    if job.batch is None:
        return mode
    of = "each worker" if job.batch.scope is BatchScope.WORKER else "all workers together"
    return f"{mode}, a step takes {job.batch.size} examples of {of}"


def _places(found: JobCopy, kinds: Mapping[str, str]) -> list[NodeReplicas]:
    by_node: dict[str, list[Replica]] = {}
    for pod in found.pods:
        if pod.finished:
            continue
        role, index = (pod.replica.role, pod.replica.index) if pod.replica else ("", 0)
        state = pod.container
        replica = Replica(role, index, pod.phase, pod.leaving, state.restarts, state.error)
        by_node.setdefault(pod.node or "", []).append(replica)
    return [
        NodeReplicas(node, kinds.get(node, ""), sorted(each, key=lambda one: (one.role, one.index)))
        for node, each in sorted(by_node.items())
    ]


def node_rows(copy: ClusterCopy) -> list[NodeRow]:
    """All nodes, with what their pods request and which jobs are there."""
    seen = copy.observation
    by_node: dict[str, list[BoundPod]] = {}
    for pod in seen.snapshot.pods:
        by_node.setdefault(pod.node, []).append(pod)
    names = {uid: str(job.key) for uid, job in copy.jobs.items()}
    kinds = seen.node_kinds
    return [
        _node_row(node, kinds.get(node.name, ""), by_node.get(node.name, ()), names)
        for node in seen.snapshot.nodes
    ]


def _node_row(node: Node, kind: str, pods: Sequence[BoundPod], names: Mapping[str, str]) -> NodeRow:
    requested: Counter[str] = Counter()
    jobs: dict[str, Counter[Role]] = {}
    for pod in pods:
        requested.update(pod.resources)
        if pod.replica is not None and not pod.ended:
            jobs.setdefault(pod.replica.job_uid, Counter())[pod.replica.role] += 1
    known = sorted(
        (
            (
                names.get(uid, "a job that is gone"),
                {role.value: counts[role] for role in _SHOWN if counts[role]},
            )
            for uid, counts in jobs.items()
        ),
        key=itemgetter(0),
    )
    return NodeRow(
        node.name,
        kind,
        node.cordoned,
        [
            f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
            for taint in node.taints
        ],
        {name: (requested[name], amount) for name, amount in node.allocatable.items()},
        known[:_MOST_NAMED],
        max(len(known) - _MOST_NAMED, 0),
        len(pods),
    )
