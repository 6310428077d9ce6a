"""``optimus top``: the jobs of a namespace, where each stands and what it takes."""

import argparse
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from optimus.cli.cluster import add_arguments, connected, incomplete, status_of
from optimus.cli.command import Answer, Implementation, Progress
from optimus.cli.table import table
from optimus.resources import CPU

if TYPE_CHECKING:
    from optimus.cli.job_view import ClusterJob
    from optimus.kube.job_list import JobList

_LONGEST_REASON = 100

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


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, all_namespaces=True, is_wide=True)
    orders = f"{', '.join(_ORDERS)} (default: name)"
    parser.add_argument("--sort", choices=_ORDERS, default="name", metavar="COLUMN", help=orders)


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    with connected(options, "top") as cluster:
        from optimus.kube.job_list import list_jobs

        namespace = cluster.wanted(options)
        return answer_of(list_jobs(cluster.client, namespace), namespace, options.sort)


def views_of(found: "JobList") -> "list[ClusterJob]":
    """The jobs of a list as they are shown."""
    from optimus.cli.job_view import ClusterJob

    return [
        ClusterJob(job.job, job.profile, job.held, found.now, job.profile_was_read, job.failure)
        for job in found.jobs
    ]


def answer_of(found: "JobList", namespace: str | None, order: str = "name") -> Answer:
    """The list as a table."""
    views = sorted(views_of(found), key=lambda view: (_ORDERS[order](view), _name(view)))
    value = {
        "namespace": namespace,
        "jobs": [view.value() for view in views],
        "notReadable": list(found.not_readable),
    }
    texts = []
    for is_wide in (False, True):
        parts = [summary(views, namespace)]
        if views:
            parts.append(_table(views, with_namespace=namespace is None, is_wide=is_wide))
        parts += [f"incomplete: {each}" for each in incomplete(found.not_readable)]
        texts.append("\n\n".join(parts))
    status = status_of(found.not_readable)
    return Answer(value, texts[0], wide=texts[1], colours=PHASE_COLOURS, status=status)


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
    saved = f"; moving {len(books)} of them has saved {sum(books)} s" if books else ""
    return f"{jobs}: {named}{cpu}{saved}"


def _table(views: "Sequence[ClusterJob]", *, with_namespace: bool, is_wide: bool) -> str:
    columns: list[tuple[str, str, list[str]]] = []

    def add(align: str, heading: str, cells: list[str]) -> None:
        columns.append((align, heading, cells))

    if with_namespace:
        add("<", "namespace", [each.training_job.namespace for each in views])
    add("<", "job", [view.training_job.name for view in views])
    if is_wide:
        add("<", "kind", [each.training_job.submitted_kind for each in views])
    add("<", "phase", [_phase(each) for each in views])
    add(">", "PS", [_count(each, 0) for each in views])
    add(">", "workers", [_workers(each) for each in views])
    add("<", "loss", [_value_now(each) for each in views])
    add("<", "goal", [each.status.goal or "-" for each in views])
    add(">", "done", [_percent(each) for each in views])
    add("<", "end (UTC)", ["-" if each.end is None else each.end.text(each.now) for each in views])
    add(">", "cpu", ["-" if each.held is None else f"{each.held[CPU] / 1000:g}" for each in views])
    if is_wide:
        add(">", "steps/s", [_number(each.status.steps_per_second) for each in views])
        add(">", "saved s", [_saved(each) for each in views])
        add(">", "rescales", [str(each.status.rescales) for each in views])
        add("<", "reason", [_cut(each.status.reason) or "-" for each in views])
    rows = zip(*(cells for _, _, cells in columns), strict=True)
    return table("".join(each[0] for each in columns), [column[1] for column in columns], rows)


def _phase(view: "ClusterJob") -> str:
    return f"{view.phase}, paused" if view.is_paused and not view.is_over else view.phase


def _count(view: "ClusterJob", index: int) -> str:
    """``4``, or ``4 to 6`` during a rescale."""
    counts, status = view.counts, view.status
    target = (status.target_ps, status.target_workers)[index]
    if counts is None:
        return "-"
    return str(counts[index]) if target in (None, counts[index]) else f"{counts[index]} to {target}"


def _workers(view: "ClusterJob") -> str:
    """Of a job without PSs its master too: ``1 master + 3 workers``."""
    job = view.job
    if job is None or job.counts.ps or len(job.trainers) == 1:
        return _count(view, 1)
    return job.size


def _saved(view: "ClusterJob") -> str:
    books = view.status.books
    return "-" if books is None else str(books.saved_seconds)


def _value_now(view: "ClusterJob") -> str:
    return view.status.metric or _number(view.status.loss)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _percent(view: "ClusterJob") -> str:
    percent = view.status.progress_percent
    return "-" if percent is None else f"{percent} %"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_REASON else f"{text[: _LONGEST_REASON - 3]}..."


def _name(view: "ClusterJob") -> tuple[str, str]:
    return view.training_job.namespace, view.training_job.name


def _end(view: "ClusterJob") -> float:
    return math.inf if view.end is None else view.end.at


def _cpu(view: "ClusterJob") -> int:
    return 0 if view.held is None else -view.held[CPU]


def _most_saved(view: "ClusterJob") -> float:
    books = view.status.books
    return math.inf if books is None else -books.saved_seconds


_ORDERS: "Final[Mapping[str, Callable[[ClusterJob], Any]]]" = MappingProxyType(
    {
        "name": _name,
        "phase": _phase,
        "done": lambda view: -(view.status.progress_percent or 0),
        "end": _end,
        "cpu": _cpu,
        "saved": _most_saved,
    }
)
"""What ``--sort`` orders by: the soonest end, and the largest amount, come first."""

IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
