"""What an image name means where nothing is pulled: the environment on this machine that a
container runs in.

A process node has no container engine. An image name is looked up in an `ImageCatalog`, which
answers with an `Environment` (what is on PATH, the working directory, variables, an entry point) or
with a sentence that says why the image cannot run here. A catalog travels to the node agent as JSON
inside its configuration.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

_DEFAULT_PREFIXES = ("docker.io/", "index.docker.io/", "library/")


@dataclass(frozen=True)
class Environment:
    """What a container of one image finds on this machine.

    `path` is put before the system's PATH; `interpreter` is what the command `python` starts (when
    None, PATH decides); `command` is the entry point of a container that names none.
    """

    path: tuple[str, ...] = ()
    working_dir: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    interpreter: str | None = None
    command: tuple[str, ...] = ()


@dataclass(frozen=True)
class Unavailable:
    """An image that this machine cannot run now, and the sentence that says why."""

    sentence: str


@dataclass(frozen=True)
class ImageCatalog:
    """Image names, with or without a tag, and what each one means. A name without a tag stands for
    every tag."""

    entries: Mapping[str, Environment | Unavailable]

    def lookup(self, image: str) -> Environment | Unavailable:
        """Find the environment of an image as a container names it (registry defaults, tag and
        digest aside)."""
        full, bare = _spellings(image)
        found = self.entries.get(full) or self.entries.get(bare)
        if found is not None:
            return found
        known = ", ".join(sorted(self.entries)) or "none"
        return Unavailable(
            f'no environment on this machine stands for image "{image}"; known images: {known}'
        )

    def to_json(self) -> dict[str, Any]:
        """Turn the catalog into JSON values, which `from_json` reads back."""
        return {name: _entry_to_json(entry) for name, entry in sorted(self.entries.items())}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "ImageCatalog":
        """Read a catalog from JSON values. Raises ValueError with a sentence naming the entry that
        is wrong."""
        return ImageCatalog({name: _entry_from_json(name, entry) for name, entry in values.items()})


def default_images(
    repo_root: Path,
    venv: Path,
    binaries_dir: Path | None,
    extra: Mapping[str, Path | str] | None = None,
) -> ImageCatalog:
    """Name the images that this project's manifests and examples use.

    `binaries_dir` holds a kube-scheduler; without one the embedded stand-in is meant.

    `extra` maps an example image (`optimus-examples-mxnet`, `optimus-examples-tensorflow`) to the
    folder of its virtual environment, or to the sentence that says why there is none.
    """
    project = _python_environment(repo_root, venv)
    entries: dict[str, Environment | Unavailable] = {
        "optimus-on-kubernetes": project,
        "optimus-examples": project,
        "registry.k8s.io/kube-scheduler": _scheduler(project, repo_root, binaries_dir),
        "busybox": Environment(command=("sh",)),
    }
    given = dict(extra or {})
    for name in ("optimus-examples-mxnet", "optimus-examples-tensorflow", *given):
        where = given.get(
            name, f'the virtual environment of image "{name}" was not set up for this cluster'
        )
        entries[name] = (
            _python_environment(repo_root, where) if isinstance(where, Path) else Unavailable(where)
        )
    return ImageCatalog(entries)


def _scheduler(project: Environment, repo_root: Path, binaries_dir: Path | None) -> Environment:
    command = ("kube-scheduler",)
    if binaries_dir is not None:
        return Environment(path=(str(binaries_dir),), command=command)
    stand_in = str(repo_root / "localcluster" / "src" / "localcluster" / "embedded" / "bin")
    return replace(project, path=(stand_in, *project.path), command=command)


def _python_environment(repo_root: Path, venv: Path) -> Environment:
    """Describe a virtual environment whose programs see the project's sources."""
    return Environment(
        path=(str(venv / "bin"),),
        working_dir=str(repo_root),
        env={"PYTHONPATH": f"{repo_root}:{repo_root}/localcluster/src", "VIRTUAL_ENV": str(venv)},
        interpreter=str(venv / "bin" / "python"),
    )


def _spellings(image: str) -> tuple[str, str]:
    """Return the image with its tag and without it, both free of digest and of the default
    registry."""
    name = image.partition("@")[0]
    for prefix in _DEFAULT_PREFIXES:
        name = name.removeprefix(prefix)
    head, separator, tail = name.rpartition(":")
    tagged = bool(separator) and "/" not in tail
    return name, head if tagged else name


def _entry_to_json(entry: Environment | Unavailable) -> dict[str, Any]:
    if isinstance(entry, Unavailable):
        return {"unavailable": entry.sentence}
    return {
        "path": list(entry.path),
        "working_dir": entry.working_dir,
        "env": dict(entry.env),
        "interpreter": entry.interpreter,
        "command": list(entry.command),
    }


def _entry_from_json(name: str, entry: Any) -> Environment | Unavailable:
    if not isinstance(entry, Mapping):
        raise ValueError(f'image "{name}" must be described by a JSON object')
    if "unavailable" in entry:
        return Unavailable(str(entry["unavailable"]))
    return Environment(
        path=_strings(name, "path", entry.get("path") or ()),
        working_dir=entry.get("working_dir"),
        env={str(key): str(value) for key, value in (entry.get("env") or {}).items()},
        interpreter=entry.get("interpreter"),
        command=_strings(name, "command", entry.get("command") or ()),
    )


def _strings(name: str, key: str, values: Any) -> tuple[str, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise ValueError(f'image "{name}": "{key}" must be a list of strings')
    return tuple(str(value) for value in values)
