"""A control plane that knows Kubernetes' own gangs (PodGroups): alpha in 1.36, beta in 1.37, off by
default in both."""

import os
from pathlib import Path
from typing import Final, NamedTuple

from localcluster.binaries.locate import KUBERNETES_VARIABLE, resolve
from localcluster.binaries.modules import DEFAULT_KUBERNETES
from localcluster.progress import PlainProgress

GROUP: Final = "scheduling.k8s.io"


class PodGroups(NamedTuple):
    """What a release calls them."""

    version: str
    """Of the API."""

    gates: str
    """The flag of kube-scheduler and kube-apiserver."""

    @property
    def api(self) -> str:
        """The path of the API."""
        return f"/apis/{GROUP}/{self.version}"

    def programs(self, folder: Path, *names: str) -> Path:
        """``folder`` with scripts that run these programs of the control plane, each with its
        flags for PodGroups."""
        flags = {
            "kube-apiserver": f"{self.gates} --runtime-config={GROUP}/{self.version}=true",
            "kube-controller-manager": "--feature-gates=GenericWorkload=true",
            "kube-scheduler": self.gates,
        }
        built = resolve(PlainProgress())
        for name in names or flags:
            program = folder / name
            program.write_text(f'#!/bin/sh\nexec {built[name]} "$@" {flags[name]}\n')
            program.chmod(0o755)
        return folder


def pod_groups() -> PodGroups:
    """Those of the release that tests and benchmarks run."""
    release = os.environ.get(KUBERNETES_VARIABLE) or DEFAULT_KUBERNETES
    if release.startswith("1.36."):
        return PodGroups("v1alpha2", "--feature-gates=GenericWorkload=true,GangScheduling=true")
    return PodGroups("v1beta1", "--feature-gates=GenericWorkload=true")
