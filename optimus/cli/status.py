"""``optimus status [JOB]``: one job in full, or the list of a namespace's jobs."""

import argparse
from collections.abc import Iterator, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final

from optimus.cli.cluster import add_arguments, add_job, connected, incomplete, status_of
from optimus.cli.command import Answer, Implementation, Progress
from optimus.cli.overview import PHASE_COLOURS, jobs_table, summary, views_of
from optimus.cli.table import columns_table, table
from optimus.errors import NotReady
from optimus.jobs import Counts
from optimus.times import clock, duration

if TYPE_CHECKING:
    from optimus.cli.job_facts import JobFacts
    from optimus.cli.job_list import JobList
    from optimus.cli.job_view import ClusterJob
    from optimus.cli.observed_jobs import JobLogSource
    from optimus.kube.pods import Pod
    from optimus.progress.types import SpeedSample
    from optimus.resources import Resources

_MOST_SAMPLES = 12
_MOST_MOVES = 5


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    help_text = "the name of a job; default: the list of all jobs"
    add_job(parser, help_text, nargs="?")
    add_arguments(parser, all_namespaces=True)


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    with connected(options, "status") as cluster:
        from optimus.cli.job_facts import JobReader
        from optimus.cli.job_list import list_jobs

        if options.job is None:
            namespace = cluster.wanted(options)
            return overview(list_jobs(cluster.client, namespace), namespace)
        facts = JobReader(cluster.client).read(cluster.namespace, options.job)
        return in_full(facts, by_log(cluster.client, facts))


# --- all jobs


def overview(found: "JobList", namespace: str | None) -> Answer:
    """The jobs in a table, and which of them need attention."""
    views = views_of(found)
    needs = [
        (f"{view.training_job.namespace}/{view.training_job.name}", what, text)
        for view in views
        for what, text in attention(view)
    ]
    parts = [summary(views, namespace)]
    if views:
        parts.append(jobs_table(views, with_namespace=namespace is None))
    if needs:
        parts.append(table("<<<", ("job", "what", "why"), needs))
    elif views and not found.not_readable:
        parts.append("nothing needs attention; optimus status JOB shows one job in full")
    parts += [f"incomplete: {each}" for each in incomplete(found.not_readable)]
    value = {
        "namespace": namespace,
        "jobs": [each.value() for each in views],
        "attention": [{"job": job, "what": what, "text": text} for job, what, text in needs],
        "notReadable": list(found.not_readable),
    }
    status = status_of(found.not_readable)
    return Answer(value, "\n\n".join(parts), colours=PHASE_COLOURS, status=status)


def attention(view: "ClusterJob") -> Iterator[tuple[str, str]]:
    """Return what a user may want to do something about, in a word and a sentence."""
    status, phase = view.status, view.phase
    if phase in ("Failing", "Waiting", "Failed", "LeftAlone", "WaitingForCheckpoint"):
        yield phase, view.reason
    elif phase == "NoProfile":
        yield phase, _NO_PROFILE
    for problem in view.training_job.problems:
        yield "annotation", str(problem)
    if status.complaint:
        yield "log", status.complaint
    if "at risk" in status.deadline or "no counts meet it" in status.deadline:
        yield "deadline", status.deadline
    if status.straggler:
        yield "straggler", status.straggler
    for failed in status.failed_counts:
        yield "failed at", failed


_NO_PROFILE = (
    "it has no TrainingProfile yet; the autoscaler makes one within seconds, if it runs and leads:"
    " optimus doctor says"
)


# --- one job


def by_log(client: "JobLogSource", facts: "JobFacts") -> Answer | None:
    """What the log of a job without a goal shows, which has no profile; ``None`` for any other."""
    job = facts.job.job
    if job is None or job.goal is not None or facts.profile is not None or facts.job.outcome:
        return None
    from optimus.cli.advise import training_of
    from optimus.cli.observed_jobs import observe_jobs

    return training_of(observe_jobs(client, facts.job.namespace, (facts.job.name,)), facts.job.uid)


def in_full(facts: "JobFacts", by_log: Answer | None = None) -> Answer:
    """Everything about one job; ``by_log`` is what its log alone shows."""
    from optimus.cli.job_view import ClusterJob, amounts_value

    held = _held(facts.pods) if facts.pods_were_read else None
    failure = facts.failure()
    view = ClusterJob(
        facts.job,
        facts.profile,
        held,
        facts.now,
        facts.profile_was_read,
        failure="" if failure is None else str(failure),
    )
    progress = None if view.learned is None else view.learned.progress
    samples, unit = (progress.samples, progress.speed_unit) if progress else ((), "steps/s")
    newest = sorted(samples, key=lambda sample: -sample.at)[:_MOST_SAMPLES]
    lines = [*_decision(view), *_training(view), *_changes(view), *_pods(view, facts.pods)]
    lines += [(what, text) for what, text in attention(view) if what not in ("Failed", view.phase)]
    lines += [("incomplete", each) for each in incomplete(facts.not_readable)]
    width = max((len(word) for word, _ in lines), default=0)
    texts = "\n".join(f"{word:<{width}}  {sentence}" for word, sentence in lines)
    job = facts.job
    parts = [f"{job.kind} {job.key}: {_headline(view)}", texts]
    if by_log is not None:
        parts.append(by_log.text)
    if newest:
        parts.append("speeds measured, newest first:\n" + _sample_table(newest, unit, view.now))
    value = {
        **view.value(),
        "intervalId": view.status.interval_id or None,
        "rescale": _rescale_value(view),
        "lastRescaledAt": view.status.last_rescaled_at,
        "rescaleSeconds": [] if view.record is None else list(view.record.prices),
        "checkpointStep": view.status.checkpoint_step,
        "checkpointedAt": view.status.checkpointed_at,
        "trainedSeconds": view.status.trained_seconds,
        "attention": [{"what": what, "text": text} for what, text in attention(view)],
        "requests": None if view.job is None else amounts_value(view.job.demand()),
        "samples": [
            {
                "ps": each.counts.ps,
                "workers": each.counts.workers,
                "stepsPerSecond": each.steps_per_second,
                "seconds": each.seconds,
                "at": each.at,
            }
            for each in newest
        ],
        "speedUnit": unit,
        "byLog": None if by_log is None else by_log.value,
        "notReadable": list(facts.not_readable),
    }
    text = "\n\n".join(part for part in parts if part)
    return Answer(value, text, status=status_of(facts.not_readable))


def _headline(view: "ClusterJob") -> str:
    if view.phase == "NotManaged":
        return view.unmanaged_text
    if view.phase == "NoProfile":
        return _NO_PROFILE
    paused = "; paused by its user" if view.is_paused and not view.is_over else ""
    return f"{view.phase}{paused}"


def _decision(view: "ClusterJob") -> Iterator[tuple[str, str]]:
    from optimus.kube.times import instant_of

    status = view.status
    if view.counts is not None:
        yield "counts", view.size
    if view.reason:
        at = instant_of(status.decided_at)
        is_decided = at is not None and view.reason == status.reason and view.phase != "Failing"
        when = f" (decided at {clock(at, view.now)} UTC)" if is_decided and at else ""
        yield "why", f"{view.reason}{when}"
    if status.recommended is not None:
        found = status.recommended
        yield "advised", f"{Counts(found.ps, found.workers)} ({found.action})"
    if status.rescale is not None:
        change = f"{status.rescale.origin} to {status.rescale.target}"
        yield "rescale", f"in progress, {change}, step {status.rescale.step or 'not begun'}"
    if view.is_paused:
        job = view.training_job
        line = f"kubectl -n {job.namespace} annotate {job.kind.lower()} {job.name}"
        yield "paused", f"nothing is changed until `{line} optimus.dl/pause-`"


def _training(view: "ClusterJob") -> Iterator[tuple[str, str]]:
    status = view.status
    if status.goal:
        yield "goal", status.goal
    done = f", {status.progress_percent} % done" if status.progress_percent is not None else ""
    if status.metric:
        yield "value", f"{status.metric}{done}"
    if status.loss is not None:
        yield "loss", f"{status.loss:.4g}{'' if status.metric else done}"
    if status.steps_per_second is not None:
        yield "speed", f"{status.steps_per_second:.4g} steps/s"
    has_none = status.remaining_seconds is None and not view.is_over
    if view.end is not None:
        left = max(view.end.at - view.now, 0.0)
        yield "end", f"{view.end.text(view.now)} UTC, in {duration(left)}"
    elif has_none and isinstance(view.forecast, NotReady):
        yield "end", f"not known: {view.forecast}"
    if status.declared_end:
        yield "declared", status.declared_end
    if status.deadline:
        yield "deadline", status.deadline
    if status.trained_seconds:
        yield "trained", duration(status.trained_seconds)


def _changes(view: "ClusterJob") -> Iterator[tuple[str, str]]:
    from optimus.kube.times import instant_of

    status, record = view.status, view.record
    profiled = () if record is None else record.profiled
    if status.phase is not None:
        moves = () if record is None else record.moves[-_MOST_MOVES:]
        at = ", ".join(clock(move, view.now) for move in moves)
        when = f", the last at {at} UTC" if moves and status.rescales else ""
        prices = () if record is None else record.prices
        price = f"; a restart takes {duration(median(prices))}" if prices else ""
        yield "rescales", f"{status.rescales or 'none'}{when}{price}"
    if status.books is not None:
        yield "saved", status.books.text
    if profiled:
        yield "profiled", "at " + ", ".join(map(str, profiled))
    saved_at = instant_of(status.checkpointed_at)
    if status.checkpoint_step is not None or saved_at is not None:
        step = "" if status.checkpoint_step is None else f"step {status.checkpoint_step}"
        when = "" if saved_at is None else f"{clock(saved_at, view.now)} UTC"
        yield "checkpoint", ", ".join(filter(None, (step, when)))
    if status.saves_on_stop:
        yield "saves on stop", status.saves_on_stop


def _pods(view: "ClusterJob", pods: "Sequence[Pod]") -> Iterator[tuple[str, str]]:
    from optimus.resources import amounts_text

    own = [each for each in pods if not each.finished]
    nodes = {pod.node for pod in own if pod.node is not None}
    if own and view.held is not None:
        where = "1 node" if len(nodes) == 1 else f"{len(nodes) or 'no'} nodes"
        placed = f"{'1 pod' if len(own) == 1 else f'{len(own)} pods'} on {where}"
        yield "holds", f"{amounts_text(view.held)}: {placed}"


def _held(pods: "Sequence[Pod]") -> "Resources":
    from optimus.resources import total

    return total(pod.resources for pod in pods if pod.bound() is not None)


def _rescale_value(view: "ClusterJob") -> dict[str, object] | None:
    found = view.status.rescale
    if found is None:
        return None
    return {
        "from": {"ps": found.from_ps, "workers": found.from_workers},
        "to": {"ps": found.to_ps, "workers": found.to_workers},
        "step": found.step,
        "why": found.why,
        "startedAt": found.started_at,
    }


def _sample_table(samples: "Sequence[SpeedSample]", unit: str, now: float) -> str:
    columns = [
        (">", "PS", [str(each.counts.ps or "-") for each in samples]),
        (">", "workers", [str(each.counts.workers) for each in samples]),
        (">", unit, [f"{each.steps_per_second:.4g}" for each in samples]),
        (">", "over s", [f"{each.seconds:.0f}" for each in samples]),
        (">", "at (UTC)", [clock(each.at, now) for each in samples]),
    ]
    return columns_table(columns)


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
