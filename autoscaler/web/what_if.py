"""When a job would be done at other counts, and when another one like it would start and end: as
the page asks it."""

import threading
from dataclasses import replace
from typing import Final

import msgspec

from optimus.jobs import Counts, Job
from optimus.resources import NONE
from optimus.snapshot import ClusterSnapshot
from optimus.what_if import counts as other_counts
from optimus.what_if.arrival import Arrival, Arriving, arrival, arriving
from optimus.what_if.counts import CountsQuestion, WhatIf
from optimus.what_if.text import arrival_sentences, counts_sentences

MOST_REPLICAS: Final = 10_000
_ONE_AT_A_TIME: Final = threading.Lock()
"""A placement on thousands of nodes takes a good part of a second of a core."""


class PageAnswer(msgspec.Struct, frozen=True):
    """An answer and its sentences."""

    answer: WhatIf | Arrival
    sentences: list[str]


def answer(question: CountsQuestion) -> PageAnswer:
    """When the job would be done."""
    with _ONE_AT_A_TIME:
        answered = other_counts.answer(question)
    return PageAnswer(answered, list(counts_sentences(answered)))


def come(question: Arriving, like: Job, *, quotas_known: bool) -> PageAnswer:
    """When another job like this one would start and end. ``quotas_known``: whether its quotas were
    asked."""
    with _ONE_AT_A_TIME:
        answered = arrival(question)
    sentences = list(arrival_sentences(question, answered, str(like.key)))
    if not quotas_known:
        sentences.append("Quotas are not taken into account, since this job has ended.")
    return PageAnswer(answered, sentences)


def another(job: Job, counts: Counts, snapshot: ClusterSnapshot) -> tuple[Job, ClusterSnapshot]:
    """A job like this one that comes now, and the cluster with quotas that charge it."""
    new = replace(arriving(job, f"another {job.key.name}", snapshot.at), counts=counts)
    quotas = tuple(
        replace(
            quota,
            charges={
                **quota.charges,
                new.uid: replace(quota.charges[job.uid], held=NONE, leaving=NONE),
            },
        )
        if job.uid in quota.charges
        else quota
        for quota in snapshot.quotas
    )
    return new, replace(snapshot, quotas=quotas)
