"""When a job would be done at other counts, and when another one like it would start and end: as
the page asks it."""

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import msgspec

from optimus.jobs import Counts, Job
from optimus.models.forecast import TimeLeft
from optimus.resources import NONE
from optimus.snapshot import ClusterSnapshot
from optimus.what_if import counts as other_counts
from optimus.what_if.arrival import ARRIVING_UID, Arriving, arrival
from optimus.what_if.counts import Question

MOST_REPLICAS: Final = 10_000
_ONE_AT_A_TIME: Final = threading.Lock()
"""A placement on thousands of nodes takes a good part of a second of a core."""


class Outlook(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """``optimus.what_if.counts.Outlook`` as the page reads it."""

    ps: int
    workers: int
    remaining: TimeLeft
    ends_at: float


class WhatIf(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """``optimus.what_if.counts.WhatIf`` as the page reads it."""

    at: float
    problem: str
    now: Outlook | None
    then: Outlook | None
    price_seconds: float
    saves_seconds: float
    why_not_moved: str
    allowed: bool
    fits: bool | None
    refusal: str
    more: Mapping[str, int]


class Arrival(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """``optimus.what_if.arrival.Arrival`` as the page reads it."""

    at: float
    ps: int
    workers: int
    starts: TimeLeft | None
    ends: TimeLeft | None
    refusal: str
    waits_for: tuple[str, ...]
    shrinks: tuple[str, ...]
    without_end: tuple[str, ...]
    quotas_known: bool


def answer(question: Question) -> WhatIf:
    """When the job would be done."""
    with _ONE_AT_A_TIME:
        found = other_counts.answer(question)
    plain = replace(found, refusal=str(found.refusal))  # msgspec writes no subclass of str
    return msgspec.convert(plain, WhatIf, from_attributes=True)


def come(question: Arriving, *, quotas_known: bool) -> Arrival:
    """When the job would start and end. ``quotas_known``: whether its quotas were asked."""
    with _ONE_AT_A_TIME:
        found = arrival(question)
    ps, workers = found.counts
    return Arrival(
        at=question.snapshot.at,
        ps=ps,
        workers=workers,
        starts=found.starts,
        ends=found.ends,
        refusal=str(found.refusal),
        waits_for=found.waits_for,
        shrinks=found.shrinks,
        without_end=found.without_end,
        quotas_known=quotas_known,
    )


def another(job: Job, counts: Counts, snapshot: ClusterSnapshot) -> tuple[Job, ClusterSnapshot]:
    """A job like this one that comes now, and the cluster with quotas that charge it."""
    new = replace(
        job,
        key=job.key._replace(name=f"another {job.key.name}"),
        uid=ARRIVING_UID,
        created_at=snapshot.at,
        counts=counts,
        suspended=False,
        paused=False,
    )
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
