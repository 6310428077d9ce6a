"""The jobs of a namespace as a table: where each stands and what it takes."""

from collections import Counter
from collections.abc import Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from optimus.cli.table import columns_table
from optimus.resources import CPU

if TYPE_CHECKING:
    from optimus.cli.job_list import JobList
    from optimus.cli.job_view import ClusterJob

PHASE_COLOURS: Final = MappingProxyType(
    {
        **dict.fromkeys(("Training", "Profiling"), "green"),
        **dict.fromkeys(("Suspending", "Resizing", "Starting", "WaitingForCheckpoint"), "cyan"),
        **dict.fromkeys(("Waiting", "Suspended", "Paused", "LeftAlone"), "yellow"),
        "WaitingForItsTurn": "yellow",
        **dict.fromkeys(("Failing", "Failed", "NoProfile", "NotReadable"), "red"),
        **dict.fromkeys(("AtTarget", "Completed"), "blue"),
        "NotManaged": "dim",
    }
)
"""By phase, as a terminal shows it."""


def views_of(found: "JobList") -> "list[ClusterJob]":
    """The jobs of a list as they are shown, by namespace and name."""
    from optimus.cli.job_view import ClusterJob

    views = [
        ClusterJob(
            each.job, each.profile, each.held, found.now, each.profile_was_read, each.failure
        )
        for each in found.jobs
    ]
    return sorted(views, key=lambda view: (view.training_job.namespace, view.training_job.name))


def summary(views: "Sequence[ClusterJob]", namespace: str | None) -> str:
    """The number of jobs by phase, and the CPU that they hold."""
    where = "any namespace" if namespace is None else f"namespace {namespace}"
    if not views:
        from optimus.kube.job_kinds import ANY_KIND

        return f"there is no {ANY_KIND} in {where}" + ("; -A shows all" if namespace else "")
    phases = Counter(each.phase for each in views)
    named = ", ".join(f"{count} {phase}" for phase, count in phases.most_common())
    jobs = "1 job" if len(views) == 1 else f"{len(views)} jobs"
    held = [view.held for view in views if view.held is not None]
    cpu = f"; they hold {sum(each[CPU] for each in held) / 1000:g} cpu" if held else ""
    books = [each.status.books.saved_seconds for each in views if each.status.books is not None]
    seconds = sum(books)
    amount = f"saved {seconds} s" if seconds >= 0 else f"made them end {-seconds} s later"
    saved = f"; moving {len(books)} of them has {amount}" if books else ""
    return f"{jobs}: {named}{cpu}{saved}"


def jobs_table(views: "Sequence[ClusterJob]", *, with_namespace: bool) -> str:
    """A line for each job; a column in which no job has anything is left out."""
    columns = [
        ("<", "job", [view.training_job.name for view in views]),
        ("<", "phase", [_phase(view) for view in views]),
        (">", "PS", [_count(view, 0) for view in views]),
        (">", "workers", [_workers(view) for view in views]),
        ("<", "loss", [_value_now(view) for view in views]),
        ("<", "goal", [view.status.goal or "-" for view in views]),
        (">", "done", [_percent(view) for view in views]),
        ("<", "end (UTC)", ["-" if v.end is None else v.end.text(v.now) for v in views]),
        (">", "cpu", ["-" if v.held is None else f"{v.held[CPU] / 1000:g}" for v in views]),
    ]
    if with_namespace:
        columns.insert(0, ("<", "namespace", [view.training_job.namespace for view in views]))
    return columns_table(columns)


def _phase(view: "ClusterJob") -> str:
    return f"{view.phase}, paused" if view.is_paused and not view.is_over else view.phase


def _count(view: "ClusterJob", index: int) -> str:
    """``4``, or ``4 to 6`` during a rescale; of a job without PSs none."""
    counts, status = view.counts, view.status
    target = (status.target_ps, status.target_workers)[index]
    if counts is None or not (counts[index] or target):
        return "-"
    return _going(counts[index], counts[index], target)


def _going(shown: object, count: int, target: int | None) -> str:
    return str(shown) if target in (None, count) else f"{shown} to {target}"


def _workers(view: "ClusterJob") -> str:
    """Of a job without PSs its master too: ``1 master + 3 workers``."""
    job = view.job
    if job is None or job.counts.ps or len(job.trainers) == 1:
        return _count(view, 1)
    return _going(job.size, job.counts.workers, view.status.target_workers)


def _value_now(view: "ClusterJob") -> str:
    return view.status.metric or _number(view.status.loss)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _percent(view: "ClusterJob") -> str:
    percent = view.status.progress_percent
    return "-" if percent is None else f"{percent} %"
