"""A control plane that knows Kubernetes' own gangs (PodGroups): alpha in 1.36, beta in 1.37, off by
default in both."""

import os
from typing import Final, NamedTuple

from localcluster.binaries.locate import KUBERNETES_VARIABLE
from localcluster.binaries.modules import DEFAULT_KUBERNETES

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

    def flags(self, *names: str) -> dict[str, tuple[str, ...]]:
        """Return the flags for PodGroups of these components of the control plane, or of all."""
        flags: dict[str, tuple[str, ...]] = {
            "kube-apiserver": (self.gates, f"--runtime-config={GROUP}/{self.version}=true"),
            "kube-controller-manager": ("--feature-gates=GenericWorkload=true",),
            "kube-scheduler": (self.gates,),
        }
        return {name: flags[name] for name in names or flags}


def pod_groups() -> PodGroups:
    """Return those of the release that tests and benchmarks run."""
    release = os.environ.get(KUBERNETES_VARIABLE) or DEFAULT_KUBERNETES
    if release.startswith("1.36."):
        return PodGroups("v1alpha2", "--feature-gates=GenericWorkload=true,GangScheduling=true")
    return PodGroups("v1beta1", "--feature-gates=GenericWorkload=true")
