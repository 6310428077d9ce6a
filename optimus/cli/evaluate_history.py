"""``optimus evaluate history``: what the moves of a cluster's jobs have brought, by their books."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from optimus.cli.cluster import add_arguments, connected, incomplete, status_of
from optimus.cli.command import Answer, Implementation, Progress
from optimus.cli.table import table
from optimus.cli.top import views_of
from optimus.times import duration

if TYPE_CHECKING:
    from optimus.cli.job_view import ClusterJob
    from optimus.kube.job_list import JobList
    from optimus.lifecycle.books import Books

_NO_BOOKS = "it has not trained, or its user's counts are not known"
_UNMOVED = "no job was moved"


class Kept(NamedTuple):
    """A job that was moved, and its books."""

    view: "ClusterJob"
    books: "Books"

    @property
    def name(self) -> str:
        """Its namespace and name."""
        job = self.view.training_job
        return f"{job.namespace}/{job.name}"

    def value(self) -> dict[str, object]:
        """For programs."""
        books = self.books
        return {
            "namespace": self.view.training_job.namespace,
            "name": self.view.training_job.name,
            "phase": self.view.phase,
            "ended": self.view.is_over,
            "ownPs": books.own.ps,
            "ownWorkers": books.own.workers,
            "ownSpeedIsPredicted": books.is_predicted,
            "rescales": self.view.status.rescales,
            **_seconds(books),
        }


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_arguments(parser, all_namespaces=True)


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    with connected(options, "evaluate history") as cluster:
        from optimus.kube.job_list import list_jobs

        namespace = cluster.wanted(options)
        return answer_of(list_jobs(cluster.client, namespace), namespace)


def answer_of(found: "JobList", namespace: str | None) -> Answer:
    """The books of each job and of all, those that lost most first."""
    views = views_of(found)
    kept, unknown = _books_of(views)
    ended = [each for each in kept if each.view.is_over]
    running = [each for each in kept if not each.view.is_over]
    value = {
        "namespace": namespace,
        "jobs": [each.value() for each in kept],
        "ended": _total(ended),
        "running": _total(running),
        "withoutBooks": [{"job": name, "why": _NO_BOOKS} for name in unknown],
        "notReadable": list(found.not_readable),
    }
    where = "any namespace" if namespace is None else f"namespace {namespace}"
    parts = [_table(kept)] if kept else [f"{_UNMOVED} in {where}; -A asks for all namespaces"]
    parts += [
        f"{which}: {_said(books)}"
        for which, books in (("ended", ended), ("still running", running))
        if books
    ]
    if unknown:
        parts.append(f"not counted, as {_NO_BOOKS}: {', '.join(unknown)}")
    parts += [f"incomplete: {each}" for each in incomplete(found.not_readable)]
    return Answer(value, "\n\n".join(parts), status=status_of(found.not_readable))


def _books_of(views: "Sequence[ClusterJob]") -> tuple[list[Kept], list[str]]:
    """The jobs that were moved, with their books, and the names of those without."""
    from optimus.lifecycle.books import books_of

    kept, unknown = list[Kept](), list[str]()
    for view in views:
        if view.job is None or view.learned is None or not view.record.rescaled_counts:
            continue
        books = books_of(view.job, view.record, view.learned.progress)
        if books is None:
            unknown.append(f"{view.training_job.namespace}/{view.training_job.name}")
        else:
            kept.append(Kept(view, books))
    return sorted(kept, key=lambda each: each.books.saved_seconds), unknown


def _seconds(books: "Books") -> dict[str, float]:
    return {
        "trainedSeconds": round(books.trained_seconds, 1),
        "fasterSeconds": round(books.faster_seconds, 1),
        "stoppedSeconds": round(books.stopped_seconds, 1),
        "redoneSeconds": round(books.redone_seconds, 1),
        "savedSeconds": round(books.saved_seconds, 1),
    }


def _total(kept: Sequence[Kept]) -> dict[str, float]:
    each_of = [_seconds(each.books) for each in kept]
    names = each_of[0] if each_of else ()
    return {"jobs": len(kept), **{name: round(sum(s[name] for s in each_of), 1) for name in names}}


def _said(kept: Sequence[Kept]) -> str:
    """``3 jobs saved 10 min 3 s: 12 min 0 s by faster training, less 1 min 57 s ...``."""
    books = [each.books for each in kept]
    saved, faster = (
        sum(each.saved_seconds for each in books),
        sum(each.faster_seconds for each in books),
    )
    untouched = sum(each.trained_seconds for each in books) + faster
    part = f" ({abs(saved) / untouched:.1%} of their time at their own counts)" if untouched else ""
    jobs = "1 job" if len(kept) == 1 else f"{len(kept)} jobs"
    return (
        f"{jobs} {'saved' if saved >= 0 else 'lost'} {duration(abs(saved))}{part}: "
        f"{duration(abs(faster))} by {'faster' if faster >= 0 else 'slower'} training, "
        f"{duration(faster - saved)} stopped and redone"
    )


def _table(kept: Sequence[Kept]) -> str:
    heading = ("job", "phase", "own", "trained", "faster", "stopped", "redone", "saved", "rests on")
    rows = [
        (
            each.name,
            each.view.phase,
            f"{each.books.own.ps} + {each.books.own.workers}",
            *(
                f"{seconds:.0f}"
                for seconds in (
                    each.books.trained_seconds,
                    each.books.faster_seconds,
                    each.books.stopped_seconds,
                    each.books.redone_seconds,
                    each.books.saved_seconds,
                )
            ),
            "prediction" if each.books.is_predicted else "measurement",
        )
        for each in kept
    ]
    return table("<<<>>>>><", heading, rows)


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
