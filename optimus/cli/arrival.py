"""``optimus what-if -f job.yaml`` or ``--like JOB``: a job that came now, its start and its end."""

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optimus.cli.cluster import connected, status_of
from optimus.cli.command import Answer, BadInput
from optimus.cli.what_if import applied, view_of
from optimus.jobs import Counts, Job
from optimus.models.forecast import TimeLeft
from optimus.what_if.arrival import (
    ARRIVING_UID,
    Arriving,
    arrival,
    arriving,
    duration_of,
)
from optimus.what_if.text import arrival_sentences

if TYPE_CHECKING:
    from optimus.cli.assumptions import Assumed
    from optimus.cli.job_view import ClusterJob
    from optimus.kube.snapshot_reader import ReadCluster
    from optimus.kube.training_jobs import TrainingJob


@dataclass(frozen=True, slots=True)
class ArrivingJob:
    """The job that comes, and the one by which its duration is known."""

    job: "TrainingJob"
    like: "ClusterJob | None" = None


def answer_arrival(options: argparse.Namespace) -> Answer:
    """The question of the options answered by the cluster."""
    if options.job is not None:
        raise BadInput("what-if", "give JOB, or one of -f and --like")
    with connected(options, "what-if") as cluster:
        from optimus.cli.assumptions import Assumed
        from optimus.cli.top import views_of
        from optimus.kube.job_list import list_jobs
        from optimus.kube.snapshot_reader import read_cluster

        client, namespace = cluster.client, cluster.namespace
        now = client.server_clock.now()
        like = None if options.like is None else view_of(client, namespace, options.like)
        if options.filename is not None:
            stored = of_manifest(read_text(options.filename), namespace, now)
        else:
            assert like is not None
            stored = another(like, now)
        stored = with_counts(stored, options)
        listed = list_jobs(client, None)
        views = views_of(listed)
        assumed = Assumed.of(views, stored.namespace, options.node_selector)
        found = read_cluster(client, assumed.settings, stored.namespace, stored, listed)
        return answer_of(ArrivingJob(stored, like), found, views, assumed)


def read_text(name: str) -> str:
    """The manifest of this file; ``-`` is the standard input."""
    if name == "-":
        return sys.stdin.read()
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(name, str(error)) from None


def of_manifest(text: str, namespace: str, now: float) -> "TrainingJob":
    """The one job of a manifest, as it would be stored now.

    Raises:
        BadInput: there is none that can be planned."""
    import yaml

    from optimus.kube.eligibility import EligibilityConfig
    from optimus.kube.errors import Malformed
    from optimus.kube.job_kinds import ANY_KIND, JOB_KINDS
    from optimus.kube.training_jobs import decode_job

    try:
        bodies = [each for each in yaml.safe_load_all(text) if isinstance(each, dict)]
    except yaml.YAMLError as error:
        raise BadInput("what-if", f"the manifest is not YAML: {error}") from None
    jobs = [each for each in bodies if each.get("kind") in JOB_KINDS]
    if len(jobs) != 1:
        raise BadInput("what-if", f"the manifest has {len(jobs)} jobs; one {ANY_KIND} is expected")
    body: dict[str, Any] = jobs[0]
    metadata = body.get("metadata")
    metadata = {"name": "job", **(metadata if isinstance(metadata, dict) else {})}
    metadata = {"namespace": namespace, **metadata, "uid": ARRIVING_UID}
    try:
        raw = json.dumps({**body, "metadata": metadata, "status": {}}).encode()
        found = decode_job(str(body["kind"]), raw, config=EligibilityConfig())
    except (Malformed, TypeError) as error:
        raise BadInput("what-if", f"the manifest cannot be read: {error}") from None
    return _fresh(found, found.name, now)


def another(like: "ClusterJob", now: float) -> "TrainingJob":
    """A job like this one, at the counts that its user gave it."""
    stored = like.training_job
    found = _fresh(stored, f"another {stored.name}", now)
    given = like.record.user_counts
    if found.job is not None and given is not None:
        found = replace(found, job=replace(found.job, counts=given))
    return found


def _fresh(stored: "TrainingJob", name: str, now: float) -> "TrainingJob":
    job = stored.job
    if job is None:
        said = stored.left_alone or "its replicas cannot be read"
        raise BadInput(str(stored.key), said)
    return replace(
        stored,
        name=name,
        uid=ARRIVING_UID,
        created_at=now,
        outcome=None,
        deleted=False,
        suspended=False,
        job=arriving(job, name, now),
    )


def with_counts(stored: "TrainingJob", options: argparse.Namespace) -> "TrainingJob":
    """Return the job with the counts of ``--ps`` and ``--workers``."""
    assert stored.job is not None
    counts = applied(stored.job.counts, options.ps, options.workers)
    return replace(stored, job=replace(stored.job, counts=counts))


def answer_of(
    template: ArrivingJob, cluster: "ReadCluster", views: "Sequence[ClusterJob]", assumed: "Assumed"
) -> Answer:
    """The question answered on what was read of the cluster and of its jobs."""
    from optimus.cli.assumptions import known_job

    job = cluster.arriving
    assert job is not None
    now = cluster.snapshot.at
    like = template.like or _same(job, views)
    running = {view.training_job.uid: known_job(view) for view in views if view.job is not None}
    decision, lasts = assumed.settings.decision, partial(_duration, like)
    question = Arriving(job, cluster.snapshot, decision, running, duration=lasts)
    found, named = arrival(question), "" if like is None else str(like.training_job.key)
    value = {
        "namespace": job.key.namespace,
        "name": job.key.name,
        "kind": job.kind,
        "ps": found.counts.ps,
        "workers": found.counts.workers,
        "starts": _value(found.starts, now),
        "ends": _value(found.ends, now),
        "refusal": found.refusal or None,
        "waitsFor": list(found.waits_for),
        "shrinks": list(found.shrinks),
        "withoutEnd": list(found.without_end),
        "like": named or None,
        "notReadable": list(cluster.not_readable),
        "notKnown": list(assumed.not_known),
    }
    title = f"{job.kind} {job.key} with {job.counts}, if it were submitted now:"
    unread = [f"Not taken into account: {each}" for each in cluster.not_readable]
    sentences = arrival_sentences(question, found, named)
    lines = [title, *sentences, *unread, *assumed.sentences]
    status = status_of(cluster.not_readable) if found.starts else 1
    return Answer(value, "\n".join(lines), status=status)


def _same(job: Job, views: "Sequence[ClusterJob]") -> "ClusterJob | None":
    """The newest job of the same workload that has trained; else one of the same name."""
    known = [
        view
        for view in views
        if view.job is not None
        and view.job.key.namespace == job.key.namespace
        and (
            (job.workload is not None and view.job.workload == job.workload)
            or view.job.key.name == job.key.name
        )
        and _duration(view, view.job.counts) is not None
    ]
    return max(known, key=lambda each: each.training_job.created_at, default=None)


def _duration(like: "ClusterJob | None", counts: Counts) -> TimeLeft | None:
    if like is None or like.learned is None:
        return None
    return duration_of(like.forecast, counts, like.learned.progress.trained_seconds)


def _value(found: TimeLeft | None, now: float) -> dict[str, object] | None:
    from optimus.kube.times import format_second

    if found is None:
        return None
    return {
        "at": format_second(now + found.median),
        "seconds": {
            name: each if math.isfinite(each) else None
            for name, each in (
                ("low", found.low),
                ("median", found.median),
                ("high", found.high),
            )
        },
    }
