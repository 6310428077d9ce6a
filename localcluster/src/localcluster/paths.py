"""Where the files of one running cluster lie, below its state folder."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parents[3]
_ROOTS: Final = (REPOSITORY, *(REPOSITORY / name / "src" for name in ("localcluster", "trainer")))
SOURCES: Final = os.pathsep.join(map(str, _ROOTS))
"""PYTHONPATH of programs of this checkout: the product, this distribution, and the trainer's."""


@dataclass(frozen=True)
class ClusterPaths:
    """The state folder of one cluster and the names in it."""

    root: Path

    @property
    def plan(self) -> Path:
        """What was asked for: name, nodes, programs (JSON)."""
        return self.root / "cluster.json"

    @property
    def status(self) -> Path:
        """What runs: the supervisor, every component, how the start went (JSON)."""
        return self.root / "status.json"

    @property
    def lock(self) -> Path:
        """Locked by the supervisor as long as it lives."""
        return self.root / "supervisor.lock"

    @property
    def logs(self) -> Path:
        """One log file per component."""
        return self.root / "logs"

    @property
    def pki(self) -> Path:
        """Certificates and keys."""
        return self.root / "pki"

    @property
    def data(self) -> Path:
        """What the components store: etcd's data, the nodes' pods."""
        return self.root / "data"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / "kubeconfig"

    def kubeconfig_of(self, component: str) -> Path:
        """Return the kubeconfig of a component."""
        return self.pki / f"{component}.kubeconfig"

    @property
    def audit_policy(self) -> Path:
        """What the API server writes to its audit log."""
        return self.root / "audit-policy.yaml"

    @property
    def audit_log(self) -> Path:
        """The API server's audit log, a JSON object on each line."""
        return self.logs / "audit.jsonl"

    def log(self, component: str) -> Path:
        """Return the log file of a component."""
        return self.logs / f"{component}.log"
