"""The two control planes behind one interface."""

import sys
from contextlib import AbstractContextManager
from typing import Final

import pytest

from localcluster.cluster import LocalCluster

REAL: Final = "real"
EMBEDDED: Final = "embedded"
_NAMES: Final = {REAL: "conformance", EMBEDDED: "conformance-embedded"}


def start(name: str) -> AbstractContextManager[LocalCluster]:
    """A control plane without nodes, up for the length of a `with` block."""
    if name == EMBEDDED:
        pytest.skip("the embedded control plane cannot be started yet")
    return LocalCluster(_NAMES[name])


def scheduler_command(cluster: LocalCluster) -> list[str]:
    """The command line of a further scheduler of this control plane, but for its configuration."""
    if cluster.name == _NAMES[EMBEDDED]:
        return [sys.executable, "-m", "localcluster.embedded.scheduler"]
    return [str(cluster.binaries["kube-scheduler"]), "--secure-port=0"]
