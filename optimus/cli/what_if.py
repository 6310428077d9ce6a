"""``optimus what-if JOB --workers +4``: when a job would be done at other counts."""

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from optimus.allocation import NO_HISTORY, JobHistory
from optimus.cli.cluster import add_arguments, add_job, connected
from optimus.cli.command import INCOMPLETE, Answer, BadInput, Implementation, Progress
from optimus.cli.job_view import ClusterJob, ExpectedEnd, view_of
from optimus.cli.snapshot_reader import ReadCluster, cluster_or_reason
from optimus.cli.table import table
from optimus.errors import NotReady
from optimus.jobs import Counts
from optimus.kube.stored_settings import ClusterSettings, settings_of
from optimus.kube.times import format_second
from optimus.lifecycle import recorded_history
from optimus.progress.types import NOTHING
from optimus.times import duration
from optimus.what_if.counts import CountsQuestion, DecisionBasis, Outlook, WhatIf, answer
from optimus.what_if.text import counts_sentences

_MOST: Final = 10_000


Change = Callable[[int], int]
"""Makes the present number of replicas the one that is meant."""


def change(text: str) -> Change:
    """``8``, or a difference from the present number: ``+4``, ``-1``."""
    if not re.fullmatch(r"[+-]?\d{1,5}", text, re.ASCII):
        raise argparse.ArgumentTypeError(
            f"a number such as 8, or a difference such as +4 or -1, is expected, not {text!a}"
        )
    number = int(text)
    return lambda present: present + number if text[0] in "+-" else number


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add_job(parser, "the name of a job")
    add("--workers", type=change, metavar="N", help="the number of workers; +4: four more")
    add("--ps", type=change, metavar="N", help="the number of PSs; +1: one more")
    text = "labels of the nodes to consider; default: those that the autoscaler uses"
    add("-l", "--node-selector", metavar="LABELS", help=text)
    add_arguments(parser)


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    if options.workers is None and options.ps is None:
        raise BadInput("what-if", "--workers or --ps is needed, such as --workers +4")
    with connected(options, "what-if") as cluster:
        view = view_of(cluster.client, cluster.namespace, options.job)
        counts = asked_counts(view, options.ps, options.workers)
        namespace = view.training_job.namespace
        assumed = Assumed.of(view, options.node_selector)
        found = cluster_or_reason(cluster.client, assumed.settings, namespace)
        return answer_of(view, counts, found, assumed)


def known_job(view: ClusterJob) -> DecisionBasis:
    """Return what a decision about a job rests on, as far as its profile tells."""
    history, status, learned = NO_HISTORY, view.status, view.learned
    if view.job is not None and learned is not None:
        history = JobHistory(
            **recorded_history(learned.record, view.job),
            held="" if status.recommended is None else status.reason,
            rescaling_to=None if status.rescale is None else status.rescale.target,
        )
    progress = NOTHING if learned is None else learned.progress
    return DecisionBasis(view.forecast, view.forecast_at, progress, history)


@dataclass(frozen=True, slots=True)
class Assumed:
    """The settings by which a question about a cluster is answered, and what is not known of
    them."""

    settings: ClusterSettings
    not_known: str = ""

    @classmethod
    def of(cls, view: ClusterJob, node_selector: str | None) -> "Assumed":
        """The settings by which the job's counts were decided; ``node_selector`` is used instead of
        the stored one where it is given."""
        found = settings_of(None if view.learned is None else view.learned.decided_by)
        settings = ClusterSettings() if isinstance(found, NotReady) else found
        if node_selector is not None:
            settings = replace(settings, node_selector=node_selector)
        return cls(settings, str(found) if isinstance(found, NotReady) else "")


def asked_counts(view: ClusterJob, ps: Change | None, workers: Change | None) -> Counts:
    """The counts that are asked about.

    Raises:
        BadInput: the job cannot have them."""
    present = view.counts
    if present is None:
        said = view.training_job.left_alone or "its replicas cannot be read"
        raise BadInput(str(view.training_job.key), said)
    asked = Counts(
        present.ps if ps is None else ps(present.ps),
        present.workers if workers is None else workers(present.workers),
    )
    if asked.ps < min(present.ps, 1) or asked.workers < 1:
        least_text = "1 PS and 1 worker" if present.ps else "1 worker"
        raise BadInput("what-if", f"a job has at least {least_text}, not {asked}")
    if max(asked) > _MOST:
        raise BadInput("what-if", f"at most {_MOST:,} PSs and workers can be asked about: {asked}")
    return asked


def answer_of(
    view: ClusterJob, counts: Counts, cluster: ReadCluster | str, assumed: Assumed
) -> Answer:
    """The question answered; ``cluster`` may say why it is not known what is free."""
    decision = assumed.settings.decision
    snapshot = None if isinstance(cluster, str) else cluster.snapshot
    planned = None if view.job is None else assumed.settings.planned(view.job)
    found = answer(CountsQuestion(planned, known_job(view), counts, view.now, decision, snapshot))
    problem = "it has ended" if view.is_over else found.problem
    if problem and view.profile is None:
        problem = f"{problem}: the job has no TrainingProfile"
    job = view.training_job
    value = {
        "namespace": job.namespace,
        "name": job.name,
        "kind": job.kind,
        "problem": problem or None,
        "now": found.now and _value(found.now),
        "then": found.then and _value(found.then),
        "rescaleSeconds": found.price_seconds,
        "savesSeconds": found.saves_seconds,
        "whyNotMoved": found.why_not_moved or None,
        "allowed": found.allowed,
        "fits": found.fits,
        "more": dict(found.more),
        "expected": found.expected,
        "refusal": found.refusal or None,
        "notReadable": [cluster] if isinstance(cluster, str) else list(cluster.not_readable),
        "notKnown": [assumed.not_known] if assumed.not_known else [],
    }
    instead = "" if counts == view.counts else f" instead of {view.counts}"
    title = f"{job.kind} {job.key} at {counts}{instead}:"
    if problem:
        return Answer(value, f"{title} not known, as {problem}", status=1)
    if isinstance(cluster, str):
        unread = [f"Whether nodes hold it is not known: {cluster}"]
    else:
        unread = [f"Not taken into account: {each}" for each in cluster.not_readable]
    not_known = f"{assumed.not_known[:1].upper()}{assumed.not_known[1:]}."
    sentences = [*counts_sentences(found), *unread, *([not_known] if assumed.not_known else [])]
    parts = [title, _table(found, view.now), "\n".join(sentences)]
    lacks = isinstance(cluster, str) or cluster.not_readable
    return Answer(value, "\n\n".join(parts), status=INCOMPLETE if lacks else 0)


def _value(found: Outlook) -> dict[str, object]:
    left = found.remaining
    return {
        "ps": found.ps,
        "workers": found.workers,
        "endsAt": format_second(found.ends_at),
        "remainingSeconds": {"low": left.low, "median": left.median, "high": left.high},
    }


def _table(found: WhatIf, now: float) -> str:
    rows = []
    for name, each in (("now", found.now), ("then", found.then)):
        if each is not None:
            left = each.remaining
            end = ExpectedEnd(now + left.median, now + left.low, now + left.high)
            size = str(Counts(each.ps, each.workers))
            rows.append((name, size, end.text(now), duration(left.median)))
    return table("<<<>", ("", "size", "end (UTC)", "time left"), rows)


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
