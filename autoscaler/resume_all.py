"""``python -m autoscaler.resume_all``: resumes every job that the autoscaler has paused or stopped.

To be run before the autoscaler is removed for good: nobody else resumes these jobs. It takes the
autoscaler's Lease first, so that none is paused again in the next minutes. Jobs that are suspended
at their goal stay so. The settings are those of the autoscaler.
"""

import logging
import os
import sys
import time
from typing import Final

from autoscaler.settings import Settings, parse
from optimus.kube.client import Client, connect
from optimus.kube.errors import KubeError
from optimus.kube.job_list import stopped_jobs
from optimus.kube.leases import LeaseStore
from optimus.kube.results import Refused
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
    except SettingsError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    log_to_stderr(settings.log_level)
    try:
        client = connect(settings.kubeconfig, user_agent="optimus-resume-all")
        return _resume_all(settings, client)
    except (KubeError, OSError) as error:
        _LOG.error("%s", error)
        return 1


def _resume_all(settings: Settings, client: Client) -> int:
    if settings.leader_lease and not _take(LeaseStore(client, settings.leader_lease)):
        return 1
    writer = JobWriter(client)
    for number in range(_ROUNDS):
        if number:
            time.sleep(1.0)
        jobs = stopped_jobs(client)
        for job in jobs:
            if job.job is None:
                _LOG.warning("%s %s cannot be read: %s", job.kind, job.key, job.resume_line)
                continue
            answer = writer.resize_and_resume(job, job.job.counts)
            if isinstance(answer, Refused):
                _LOG.warning("%s", answer)
            else:
                _LOG.info("%s %s is resumed at %s", job.kind, job.key, job.job.counts)
        # A rescale that was under way may have suspended one after it was listed.
        if not jobs and number:
            return 0
    _LOG.error("still suspended: %s", ", ".join(str(job.key) for job in stopped_jobs(client)))
    return 1


def _take(store: LeaseStore) -> bool:
    """Take the Lease from whoever leads, which writes nothing from then on."""
    for _ in range(_ROUNDS):
        found = store.read()
        if isinstance(found, Refused):
            _LOG.error("%s", found)
            return False
        at = time.time()
        answer = (
            store.create(_HOLDER, _LEASE_SECONDS, at)
            if found is None
            else store.acquire(found, _HOLDER, _LEASE_SECONDS, at)
        )
        if not isinstance(answer, Refused):
            return True
    _LOG.error("%s changes all the time: stop the autoscaler first", store)
    return False


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
