"""Runs a supervisor over tiny shell scripts instead of a control plane: `driver.py STATE STAGES
READY_SECONDS GRACE_SECONDS [OWNER_FD]`.

STAGES is JSON: a list of stages, each a list of [name, shell script, line that means ready or
null]."""

import json
import os
import sys
from pathlib import Path

from localcluster.components import Component
from localcluster.errors import ClusterError
from localcluster.paths import ClusterPaths
from localcluster.processes import identify
from localcluster.readiness import LogLineProbe, Probe
from localcluster.supervisor.runner import PortTakenError, Stage, Supervisor
from localcluster.supervisor.status import StatusWriter


class Running:
    """Ready as soon as it runs."""

    def ready(self, log_offset: int) -> bool:
        return log_offset >= 0


def component(
    paths: ClusterPaths, grace_seconds: float, name: str, script: str, ready: str | None
) -> Component:
    probe: Probe = LogLineProbe(paths.log(name), ready) if ready else Running()
    return Component(name, ("/bin/sh", "-c", script), probe, grace_seconds=grace_seconds)


def main() -> int:
    paths = ClusterPaths(Path(sys.argv[1]))
    ready_seconds, grace_seconds = (float(each) for each in sys.argv[3:5])
    owner_fd = int(sys.argv[5]) if len(sys.argv) > 5 else None
    stages = [
        Stage([component(paths, grace_seconds, *each) for each in stage])
        for stage in json.loads(sys.argv[2])
    ]
    records = StatusWriter(paths, identify(os.getpid()))
    supervisor = Supervisor(paths, records, owner_fd, ready_seconds)
    supervisor.install_handlers()
    try:
        records.cluster("stopped", supervisor.run(stages))
    except PortTakenError as error:
        records.cluster("port taken", str(error))
    except ClusterError as error:
        records.cluster("failed", str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
