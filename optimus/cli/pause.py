"""``optimus pause JOB`` and ``optimus resume JOB``: stop all changes of a job for a while."""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Final

from optimus.cli.cluster import add_arguments, add_job, connected
from optimus.cli.command import Answer, Implementation, Progress

if TYPE_CHECKING:
    from optimus.kube.training_jobs import TrainingJob

_JOB: Final = "the name of a TFJob or MXJob"
_EFFECT: Final = (
    "no rescale or profiling run begins until it is resumed; one that waits for its pods to go is"
    " undone. It trains on, and its profile goes on to show its progress"
)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    add_job(parser, _JOB)
    add_arguments(parser)


def _run(options: argparse.Namespace, _: Progress, *, paused: bool) -> Answer:
    with connected(options, "pause" if paused else "resume") as cluster:
        from optimus.kube.job_facts import JobReader
        from optimus.kube.pause import set_paused

        job = JobReader(cluster.client).job(cluster.namespace, options.job)
        changes = is_needed(job, paused=paused)
        if changes:
            set_paused(cluster.client, job, paused=paused)
    value = {
        "namespace": job.namespace,
        "name": job.name,
        "kind": job.submitted_kind,
        "paused": paused,
        "changed": changes,
    }
    return Answer(value, sentence(job, paused=paused, changed=changes))


def is_needed(job: "TrainingJob", *, paused: bool) -> bool:
    """Whether the annotation has to be written. Of a job that cannot be scheduled as a gang it is
    not read, so that it is written in any case."""
    was_paused = None if job.job is None else job.job.paused
    return was_paused is not paused and job.outcome is None


def sentence(job: "TrainingJob", *, paused: bool, changed: bool) -> str:
    """What was done, and what follows from it."""
    name = f"{job.submitted_kind} {job.key}"
    if job.outcome is not None:
        return f"{name} has ended ({job.outcome}): nothing would change it"
    if paused:
        done = f"{name} is paused" if changed else f"{name} is paused already"
        unmanaged = job.job is None or not job.job.managed
        return f"{done}: {'it is not managed, so nothing changes it' if unmanaged else _EFFECT}"
    done = f"{name} may be changed again" if changed else f"{name} is not paused"
    if job.suspended and job.suspended_by is None:
        return f"{done}. It is suspended, by its user or a queue; to start it: {job.resume_line}"
    return done


PAUSE: Final = Implementation(_add_arguments, partial(_run, paused=True))
RESUME: Final = Implementation(_add_arguments, partial(_run, paused=False))
