"""Where the local cluster keeps files on this machine, and how several processes share them.

Folders follow the XDG base directory specification: what can be built again lies in the cache, what
a running cluster needs lies in the state folder. A folder in the cache is published by one rename,
so that it is either complete or absent, and a lock file keeps two processes from building the same
thing."""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from localcluster.errors import ClusterError
from localcluster.progress import Progress

_PRODUCT = "optimus-on-kubernetes"


def cache_root(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for what can be built again (`$XDG_CACHE_HOME`, else `~/.cache`)."""
    return _xdg("XDG_CACHE_HOME", ".cache", environ)


def state_root(environ: Mapping[str, str] | None = None) -> Path:
    """Return the folder for clusters that run (`$XDG_STATE_HOME`, else `~/.local/state`)."""
    return _xdg("XDG_STATE_HOME", ".local/state", environ)


def _xdg(variable: str, fallback: str, environ: Mapping[str, str] | None) -> Path:
    given = (os.environ if environ is None else environ).get(variable, "")
    # The specification says that a relative path is to be ignored.
    base = Path(given) if given.startswith("/") else Path.home() / fallback
    return base / _PRODUCT


@contextmanager
def locked(path: Path, progress: Progress) -> Iterator[None]:
    """Hold an exclusive lock on the file `path`, waiting for another process that has it.

    The lock goes when its holder dies, however it dies."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.step(f"waiting for another process that prepares {path.stem}"):
                fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def publish(target: Path, fill: Callable[[Path], None], progress: Progress) -> Path:
    """Return the folder `target`, filled by `fill` if it does not exist yet.

    `fill` gets an empty folder beside it; only when it returns does the folder appear under its
    name. Whatever `fill` raises is passed on and leaves nothing behind."""
    if target.is_dir():
        return target
    with locked(target.with_name(target.name + ".lock"), progress):
        if not target.is_dir():
            _fill_and_rename(target, fill)
    return target


def _fill_and_rename(target: Path, fill: Callable[[Path], None]) -> None:
    for stale in target.parent.glob(f".{target.name}.*"):
        shutil.rmtree(
            stale, ignore_errors=True
        )  # a builder that was killed; the lock says that none runs
    work = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        fill(work)
        work.chmod(0o755)
        work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_json(path: Path, body: object) -> None:
    """Replace a JSON file atomically."""
    replace_file(path, json.dumps(body, indent=1).encode())


def replace_file(path: Path, data: bytes) -> None:
    """Replace a file in one step; only its owner may read it."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
        Path(name).rename(path)
    except BaseException:
        with suppress(FileNotFoundError):
            Path(name).unlink()
        raise


def read_yaml(path: Path) -> list[dict[str, Any]]:
    """Return the documents of a YAML file. Raises ClusterError where it cannot be read."""
    try:
        text = path.read_text()
    except OSError as error:
        raise ClusterError(f"the manifest {path} cannot be read: {error.strerror}") from error
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [each for each in yaml.load_all(text, Loader=loader) if each]


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a JSON file; None where the file is absent or holds something else."""
    try:
        body = json.loads(path.read_text())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return body if isinstance(body, dict) else None
