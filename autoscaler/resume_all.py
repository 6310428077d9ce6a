"""``python -m autoscaler.resume_all``: resumes every job that the autoscaler has paused or stopped.

To be run before the autoscaler is removed for good, or after: nobody else resumes these jobs. It
takes the autoscaler's Lease, so that none is paused again in the next minutes. The leader's process
ends by that, and where this runs in its container, this one, too: the jobs are resumed before, and
run again it says that none is left. Jobs that are suspended at their goal stay so. The settings are
those of the autoscaler.
"""

import logging
import os
import sys
import time
from functools import partial
from typing import Final

from autoscaler.settings import parse
from optimus.kube.client import Client, connect
from optimus.kube.eligibility import EligibilityConfig
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.job_kinds import JOB_KINDS
from optimus.kube.leases import Lease, LeaseStore
from optimus.kube.list_watch import decoded, read_list
from optimus.kube.results import Written
from optimus.kube.training_jobs import TrainingJob, decode_job, jobs_path
from optimus.kube.writer import JobWriter
from optimus.runtime.logs import log_to_stderr
from optimus.runtime.settings import SettingsError

_LOG = logging.getLogger("resume-all")
_HOLDER: Final = "resume-all"
_LEASE_SECONDS: Final = 300.0
_ROUNDS: Final = 10
"""A job that has changed meanwhile, or was being stopped, is tried again in the next one."""


def main(arguments: list[str]) -> int:
    """Resume them; returns 1 where some could not be."""
    try:
        settings = parse(arguments, os.environ)
        log_to_stderr(settings.log_level)
        client = connect(settings.kubeconfig, user_agent="optimus-resume-all")
        left = _resume_all(client, 1)
        if settings.leader_lease:
            _take(LeaseStore(client, settings.leader_lease))
            left = _resume_all(client, _ROUNDS)
    except (SettingsError, KubeError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"still stopped by the autoscaler: {', '.join(left) or 'no job'}\n")
    return int(bool(left))


def _resume_all(client: Client, rounds: int) -> list[str]:
    """Returns the jobs that are still suspended."""
    writer, jobs = JobWriter(client), _stopped(client)
    for _ in range(rounds):
        for job in jobs:
            if job.job is not None:
                answer = writer.resize_and_resume(job, job.job.counts)
                _LOG.info("%s %s: %s", job.kind, job.key, answer)
        time.sleep(1.0)
        jobs = _stopped(client)  # a rescale under way may have suspended one meanwhile
        if not jobs:
            break
    return [f"{job.kind} {job.key}" for job in jobs]


def _stopped(client: Client) -> list[TrainingJob]:
    """The jobs that the autoscaler has suspended and is to resume."""
    jobs: list[TrainingJob] = []
    for kind in (each for each in JOB_KINDS.values() if each.is_resized):
        try:
            raws = read_list(client, f"list {kind.plural}", jobs_path(kind.name))
        except KubeError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            continue  # the operator does not know this kind
        jobs += decoded(raws, partial(decode_job, kind.name, config=EligibilityConfig()), [])
    return [job for job in jobs if job.awaits_resume]


def _take(store: LeaseStore) -> None:
    """Take the Lease from whoever leads, which writes nothing from then on."""
    for _ in range(_ROUNDS):
        found, at = store.read(), time.time()
        if isinstance(found, Lease):
            answer = store.acquire(found, _HOLDER, _LEASE_SECONDS, at)
        else:
            answer = found or store.create(_HOLDER, _LEASE_SECONDS, at)
        if isinstance(answer, Written):
            return
    _LOG.warning("an autoscaler that leads may pause jobs again: %s", answer)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
