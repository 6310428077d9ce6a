"""Histories: what they keep, and that they are bounded."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from autoscaler.web.copies import JobCopy
from autoscaler.web.history import History, JobTimeline
from optimus.interval import Action
from optimus.jobs import Counts
from optimus.kube.contract import Phase
from optimus.lifecycle import JobRecord
from optimus.rescale.words import RescaleRecord, Step
from tests.unit.autoscaler.web.sample_cluster import AT, SampleCluster

BEFORE, AFTER = Counts(2, 2), Counts(2, 4)


def job(**fields: object) -> JobCopy:
    found = SampleCluster(1).copy().jobs["uid-0"]
    known: dict[str, Any] = {"record": JobRecord(prices=(30.0,)), **fields}
    return found._replace(**known)


def at_counts(counts: Counts, phase: Phase = Phase.TRAINING, **fields: object) -> JobCopy:
    found = job()
    assert found.job is not None
    status = msgspec.structs.replace(
        found.status, ps=counts.ps, workers=counts.workers, phase=phase
    )
    others: dict[str, Any] = fields
    return found._replace(status=status, job=replace(found.job, counts=counts), **others)


def rescale(step: Step = Step.SUSPEND) -> RescaleRecord:
    return RescaleRecord("r1", AT, BEFORE, AFTER, "worker 4 saves 300 s", step, AT)


def test_a_rescale_is_followed_to_its_end_with_its_price() -> None:
    timeline = JobTimeline()
    timeline.note(at_counts(BEFORE), AT)
    timeline.note(at_counts(BEFORE, Phase.SUSPENDING, rescale=rescale()), AT + 2)
    timeline.note(at_counts(BEFORE, Phase.STARTING, rescale=rescale(Step.START)), AT + 20)
    assert [each.ended_at for each in timeline.rescales] == [None]
    record = JobRecord(prices=(30.0, 41.6))
    timeline.note(at_counts(AFTER, record=record), AT + 50)
    (entry,) = timeline.rescales
    assert (entry.outcome, entry.price_seconds, entry.ended_at) == ("reached", 42, AT + 50)
    assert (entry.from_workers, entry.to_workers) == (2, 4)
    assert [(each.workers, each.phase) for each in timeline.counts] == [
        (2, "Training"),
        (2, "Suspending"),
        (2, "Starting"),
        (4, "Training"),
    ]


def test_a_rescale_that_is_taken_back_says_so() -> None:
    timeline = JobTimeline()
    same = JobRecord(prices=(30.0,))
    timeline.note(at_counts(BEFORE, rescale=rescale(), record=same), AT)
    timeline.note(at_counts(BEFORE, record=same), AT + 60)
    (entry,) = timeline.rescales
    assert (entry.outcome, entry.price_seconds) == ("rolled back", None)


def test_decisions_that_are_alike_are_counted() -> None:
    timeline, first = JobTimeline(), job()
    assert first.decision is not None
    for number in range(5):
        decision = replace(first.decision)
        timeline.note(first._replace(decision=decision, decided_at=AT + 10.0 * number), AT)
    other = replace(first.decision, action=Action.GROW, counts=AFTER)
    timeline.note(first._replace(decision=other, decided_at=AT + 60), AT)
    assert [(each.times, each.at, each.last_at) for each in timeline.decisions] == [
        (5, AT, AT + 40),
        (1, AT + 60, AT + 60),
    ]


def test_a_timeline_is_bounded() -> None:
    timeline, first = JobTimeline(), job()
    assert first.decision is not None
    for number in range(500):
        decision = replace(first.decision, reason=f"{number} " + 2000 * "x")
        record = replace(rescale(), id=f"r{number}", why=2000 * "y")
        counts = Counts(1, 1 + number % 7)
        timeline.note(at_counts(counts, rescale=record, decision=decision), AT + number)
    assert len(timeline.decisions) == 32
    assert len(timeline.rescales) == 24
    assert len(timeline.counts) == 120
    assert max(len(each.reason) for each in timeline.decisions) <= 400
    assert max(len(each.why) for each in timeline.rescales) <= 400


def test_jobs_that_are_gone_are_forgotten() -> None:
    history, cluster = History(), SampleCluster(3)
    history.note(cluster.copy())
    assert len(history.timelines) == 3
    history.note(replace(cluster.copy(1), jobs={}))
    assert history.timelines == {}


@pytest.mark.parametrize("jobs", [0, 7])
def test_the_use_is_that_of_the_nodes(jobs: int) -> None:
    history, cluster = History(), SampleCluster(jobs)
    copy = cluster.copy()
    history.note(copy)
    gpus = next(each for each in history.present if each.resource == "nvidia.com/gpu")
    bound = [pod for each in copy.jobs.values() for pod in each.pods if pod.node]
    assert gpus.requested == sum(pod.resources["nvidia.com/gpu"] for pod in bound)
    assert gpus.allocatable == 8 * len(cluster.nodes)


def test_a_rescale_that_ended_before_the_job_was_stopped_is_withdrawn() -> None:
    """It is not counted among the job's rescales, and not drawn as one."""
    timeline = JobTimeline()
    timeline.note(at_counts(BEFORE, rescale=rescale(Step.CHECKPOINT)), AT)
    timeline.note(at_counts(BEFORE), AT + 50)
    (entry,) = timeline.rescales
    assert entry.outcome == "withdrawn"
