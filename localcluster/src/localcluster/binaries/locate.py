"""Decides where each program comes from: a folder that the user names, the cache, or a build."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from localcluster.binaries.build import build_module
from localcluster.binaries.modules import DEFAULT_OPERATOR, KUBERNETES, OPERATORS, GoModule
from localcluster.errors import BuildError
from localcluster.progress import Progress
from localcluster.storage import cache_root

FOLDER_VARIABLE = "OPTIMUS_LOCALCLUSTER_BINARIES"

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
) -> Binaries:
    """Find every program, building what is nowhere.

    `named` (else the folder in $OPTIMUS_LOCALCLUSTER_BINARIES) is searched first, but not for an
    operator of another version than the default one. Raises BuildError with a sentence where the
    folder is wrong or a build fails."""
    folder = named or _folder_from_environment()
    if folder is not None and not folder.is_dir():
        raise BuildError(
            f"{folder} is no folder; --binaries and ${FOLDER_VARIABLE} name one with programs in it"
        )
    cache = cache or cache_root() / "binaries"
    programs: dict[str, Path] = {}
    manifests: Path | None = None
    for module in (KUBERNETES, OPERATORS[operator]):
        is_other = module.manifests and operator != DEFAULT_OPERATOR
        found = {} if is_other else _in_folder(module, folder)
        built = build(module, cache, progress) if len(found) < len(module.programs) else None
        programs.update({name: found.get(name) or _built(built, name) for name in module.programs})
        if module.manifests:
            manifests = _manifests(built, folder)
    assert manifests is not None, "one of the modules brings the manifests"
    return Binaries(programs, manifests)


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
