"""Decides where each program comes from: a folder that the user names, the cache, or a build."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

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

FOLDER_VARIABLE = "OPTIMUS_LOCALCLUSTER_BINARIES"
KUBERNETES_VARIABLE = "OPTIMUS_LOCALCLUSTER_KUBERNETES"
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
    named: Path | None,
    progress: Progress,
    cache: Path | None = None,
    build: Build = build_module,
    operator: str = DEFAULT_OPERATOR,
    kubernetes: str | None = None,
) -> Binaries:
    """Find every program, building what is nowhere.

    `named` is searched first; else the folder in $OPTIMUS_LOCALCLUSTER_BINARIES, but not for
    another version than the default one. `kubernetes` is one of `CONTROL_PLANES`, else that of
    $OPTIMUS_LOCALCLUSTER_KUBERNETES. Raises BuildError with a sentence where the folder or the
    version is wrong or a build fails."""
    folder = named or _folder_from_environment()
    if folder is not None and not folder.is_dir():
        raise BuildError(
            f"{folder} is no folder; --binaries and ${FOLDER_VARIABLE} name one with programs in it"
        )
    cache = cache or cache_root() / "binaries"
    programs: dict[str, Path] = {}
    manifests: Path | None = None
    for module in (_control_plane(kubernetes), OPERATORS[operator]):
        is_default = module in (CONTROL_PLANES[DEFAULT_KUBERNETES], OPERATORS[DEFAULT_OPERATOR])
        found = _in_folder(module, folder if is_default else named)
        built = build(module, cache, progress) if len(found) < len(module.programs) else None
        programs.update({name: found.get(name) or _built(built, name) for name in module.programs})
        if module.manifests:
            manifests = _manifests(built, folder)
    assert manifests is not None, "one of the modules brings the manifests"
    return Binaries(programs, manifests)


def _control_plane(version: str | None) -> GoModule:
    version = version or os.environ.get(KUBERNETES_VARIABLE) or DEFAULT_KUBERNETES
    if version not in CONTROL_PLANES:
        known = ", ".join(CONTROL_PLANES)
        raise BuildError(f"there is no Kubernetes {version} here; ${KUBERNETES_VARIABLE}: {known}")
    return CONTROL_PLANES[version]


def _folder_from_environment() -> Path | None:
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given) if given else None


def _in_folder(module: GoModule, folder: Path | None) -> dict[str, Path]:
    if folder is None:
        return {}
    candidates = {name: (folder / name).resolve() for name in module.programs}
    return {
        name: path
        for name, path in candidates.items()
        if os.access(path, os.X_OK) and path.is_file()
    }


def _built(folder: Path | None, program: str) -> Path:
    assert folder is not None, "a program that is not in the user's folder was built"
    return folder / program


def _manifests(built: Path | None, folder: Path | None) -> Path:
    if built is not None:
        return built / "manifests"
    # The user's own operator needs the CRDs of its own version: others would not fit.
    assert folder is not None, "an operator that was not built lies in the user's folder"
    if not list((folder / "manifests" / "crds").glob("*.yaml")):
        raise BuildError(
            f"{folder} has a training-operator but not its CRDs: put the files of the operator's"
            f" manifests/base/crds and manifests/base/rbac into {folder}/manifests/crds and "
            f"{folder}/manifests/rbac"
        )
    return (folder / "manifests").resolve()
