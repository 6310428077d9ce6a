"""Which programs there are, the pinned Go module of each, and the key of a build.

A module lies in `modules/<name>/` as go.mod and go.sum. The key is a hash of all that decides the
result, so a changed pin or flag is rebuilt and an unchanged one never is."""

import hashlib
import platform
import re
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from localcluster.errors import ClusterError

_FOLDER = Path(__file__).parent / "modules"
_STRIPPED = "-s -w"


@dataclass(frozen=True)
class GoModule:
    """One pinned module; `programs` maps the name of each program to its Go package.

    `main` is the module whose version counts; `manifests` are folders below its root with YAML
    that a cluster needs at run time."""

    name: str
    main: str
    programs: dict[str, str]
    stamps_version: bool = False
    manifests: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """Where go.mod and go.sum lie."""
        return _FOLDER / self.name

    @property
    def version(self) -> str:
        """The pinned version of the main module, `v1.36.3` for example."""
        return _required_version((self.folder / "go.mod").read_text(), self.main)

    @property
    def go_directive(self) -> tuple[int, ...]:
        """The lowest Go version that builds the module, as numbers."""
        found = re.search(
            r"^go (\d+(?:\.\d+)*)$", (self.folder / "go.mod").read_text(), re.MULTILINE
        )
        assert found is not None, f"{self.folder}/go.mod lacks its go directive"
        return tuple(int(part) for part in found[1].split("."))

    def build_flags(self) -> tuple[str, ...]:
        """Return the arguments of `go build` before `-o`: no debug tables, the version reported."""
        stamps = {}
        if self.stamps_version:
            # Unstamped, the API server calls itself v0.0.0-master+$Format:%H$, which kubectl
            # refuses to parse.
            major, minor = self.version.removeprefix("v").split(".")[:2]
            stamps = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
        set_all = (f"-X k8s.io/component-base/version.{k}={v}" for k, v in stamps.items())
        return ("-trimpath", "-ldflags", " ".join([_STRIPPED, *set_all]))

    def key(self) -> str:
        """Name the build: a function of pins, flags, programs and platform."""
        parts = [
            (self.folder / "go.mod").read_text(),
            (self.folder / "go.sum").read_text(),
            *self.build_flags(),
            *(f"{name}={package}" for name, package in sorted(self.programs.items())),
            *self.manifests,
            f"{sys.platform}/{platform.machine()}",
        ]
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return f"{self.name}-{self.version}-{digest[:12]}"


def _required_version(go_mod: str, module: str) -> str:
    found = re.search(rf"^(?:require )?\s*{re.escape(module)} (v\S+)", go_mod, re.MULTILINE)
    assert found is not None, f"no version of {module} is pinned"
    return found[1]


KUBERNETES = GoModule(
    name="kubernetes",
    main="k8s.io/kubernetes",
    programs={
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    },
    stamps_version=True,
)

CONTROL_PLANES = {
    "1.36.3": KUBERNETES,
    "1.37.2": replace(KUBERNETES, name="kubernetes-1.37"),
}
"""The releases of Kubernetes by version; the first is the default."""

DEFAULT_KUBERNETES = next(iter(CONTROL_PLANES))

TRAINING_OPERATOR = GoModule(
    name="training-operator",
    main="github.com/kubeflow/training-operator",
    programs={
        "training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1"
    },
    manifests=("manifests/base/crds", "manifests/base/rbac"),
)

_WITH_WEBHOOK = replace(
    TRAINING_OPERATOR, manifests=(*TRAINING_OPERATOR.manifests, "manifests/base/webhook")
)

OPERATORS = {
    "1.7.0": TRAINING_OPERATOR,
    "1.8.1": replace(_WITH_WEBHOOK, name="training-operator-1.8"),
    "1.9.3": replace(_WITH_WEBHOOK, name="training-operator-1.9"),
}
"""The training operators by version; the first is the default."""

DEFAULT_OPERATOR = next(iter(OPERATORS))

JOBSET = GoModule(
    name="jobset",
    main="sigs.k8s.io/jobset",
    programs={"jobset": "sigs.k8s.io/jobset"},
    manifests=("config/components/crd/bases", "config/components/webhook"),
)
"""The JobSet controller: no component of a cluster, tests run it beside one."""

TRAINERS = {
    "2.2.0": GoModule(
        name="trainer",
        main="github.com/kubeflow/trainer/v2",
        programs={"trainer": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager"},
        manifests=("manifests/base/crds", "manifests/base/webhook"),
    )
}
"""The controllers of Kubeflow Trainer, which make JobSets, by version: no components either."""


def refuse_other_operator(operator: str) -> None:
    """Raise ClusterError for an operator that the embedded back end is no stand-in for."""
    if operator != DEFAULT_OPERATOR:
        raise ClusterError(
            f"the embedded back end stands in for training operator {DEFAULT_OPERATOR}; "
            f"{operator} needs the real one"
        )
