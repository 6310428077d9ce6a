"""The two control planes behind one interface."""

import sys
from contextlib import AbstractContextManager
from typing import Final

from localcluster.binaries.modules import DEFAULT_OPERATOR
from localcluster.cluster import LocalCluster
from localcluster.specs import Backend

REAL: Final = "real"
EMBEDDED: Final = "embedded"


def start(name: str, operator: str = DEFAULT_OPERATOR) -> AbstractContextManager[LocalCluster]:
    """A control plane without nodes, up for the length of a `with` block; `operator` is the version
    of a real one."""
    backend = Backend(name)
    return LocalCluster(f"conformance-{name}", backend=backend, training_operator=operator)


def scheduler_command(cluster: LocalCluster) -> list[str]:
    """The command line of a further scheduler of this control plane, but for its configuration."""
    if cluster.backend is Backend.EMBEDDED:
        return [sys.executable, "-m", "localcluster.embedded.scheduler"]
    return [str(cluster.binaries["kube-scheduler"]), "--secure-port=0"]
