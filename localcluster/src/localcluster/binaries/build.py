"""Builds the programs of one pinned module into the cache and copies its manifests."""

import json
import shutil
import tempfile
from pathlib import Path

from localcluster.binaries.modules import GoModule
from localcluster.binaries.toolchain import Toolchain, toolchain
from localcluster.commands import run
from localcluster.errors import BuildError
from localcluster.progress import Progress
from localcluster.storage import publish

_BUILD_SECONDS = 3600
_DOWNLOAD_SECONDS = 900


def build_module(module: GoModule, cache: Path, progress: Progress) -> Path:
    """Return the cached folder with the programs and `manifests/`, built if absent.

    Raises BuildError with the compiler's last lines."""

    def fill(work: Path) -> None:
        with (
            tempfile.TemporaryDirectory(
                prefix="go-", dir=cache, ignore_cleanup_errors=True
            ) as scratch,
            toolchain(module.go_directive, Path(scratch), progress) as tools,
        ):
            _build_programs(module, tools, work, progress)
            _copy_manifests(module, tools, work)

    cache.mkdir(parents=True, exist_ok=True)
    return publish(cache / module.key(), fill, progress)


def _build_programs(module: GoModule, tools: Toolchain, work: Path, progress: Progress) -> None:
    environ = tools.full_environ()
    with progress.step(f"downloading the sources of {module.name} {module.version}"):
        run([str(tools.go), "mod", "download"], _DOWNLOAD_SECONDS, module.folder, environ)
    for number, (name, package) in enumerate(module.programs.items(), start=1):
        with progress.step(
            f"building {name} ({number} of {len(module.programs)} of {module.name})"
        ):
            output = ["-o", str(work / name), package]
            command = [str(tools.go), "build", *module.build_flags(), *output]
            run(command, _BUILD_SECONDS, module.folder, environ)


def _copy_manifests(module: GoModule, tools: Toolchain, work: Path) -> None:
    if not module.manifests:
        return
    command = [str(tools.go), "mod", "download", "-json", module.main]
    output = run(command, _DOWNLOAD_SECONDS, module.folder, tools.full_environ())
    source = Path(json.loads(output)["Dir"])
    target = work / "manifests"
    for folder in module.manifests:
        files = sorted((source / folder).glob("*.yaml"))
        if not files:
            raise BuildError(f"{module.main} {module.version} has no manifests in {folder}")
        (target / Path(folder).name).mkdir(parents=True)
        for file in files:
            shutil.copyfile(file, target / Path(folder).name / file.name)
