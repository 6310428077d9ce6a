"""Finds the programs of a control plane in the cache; what is not there is built."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from localcluster.binaries.build import build_module
from localcluster.binaries.modules import (
    CONTROL_PLANES,
    DEFAULT_KUBERNETES,
    DEFAULT_OPERATOR,
    OPERATORS,
    GoModule,
)
from localcluster.errors import BuildError
from localcluster.progress import Progress
from localcluster.storage import cache_root

KUBERNETES_VARIABLE: Final = "OPTIMUS_LOCALCLUSTER_KUBERNETES"
"""The release of Kubernetes where none is named."""

Build = Callable[[GoModule, Path, Progress], Path]


@dataclass(frozen=True)
class Binaries:
    """Where each program lies, and the operator's manifests (`crds`, `rbac`, perhaps `webhook`)."""

    programs: Mapping[str, Path]
    manifests: Path

    def __getitem__(self, program: str) -> Path:
        return self.programs[program]


def resolve(
    progress: Progress,
    cache: Path | None = None,
    build: Build = build_module,
    operator: str = DEFAULT_OPERATOR,
    kubernetes: str | None = None,
) -> Binaries:
    """Find every program, building what is not there.

    `kubernetes` is one of `CONTROL_PLANES`, else that of $OPTIMUS_LOCALCLUSTER_KUBERNETES. Raises
    BuildError with a sentence where the version is wrong or a build fails."""
    version = kubernetes or os.environ.get(KUBERNETES_VARIABLE) or DEFAULT_KUBERNETES
    if version not in CONTROL_PLANES:
        known = ", ".join(CONTROL_PLANES)
        raise BuildError(f"there is no Kubernetes {version} here; ${KUBERNETES_VARIABLE}: {known}")
    modules = (CONTROL_PLANES[version], OPERATORS[operator])
    folders = [build(module, cache or cache_root() / "binaries", progress) for module in modules]
    programs = {
        name: folder / name
        for module, folder in zip(modules, folders, strict=True)
        for name in module.programs
    }
    return Binaries(programs, folders[1] / "manifests")
