"""What an image name means where nothing is pulled: an environment on this machine.

A process node looks an image up in an `ImageCatalog`, which answers with an `Environment` (PATH,
working directory, variables, entry point) or with a sentence that says why the image cannot run
here. A catalog travels to the node agent as JSON inside its configuration."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from localcluster.paths import REPOSITORY, SOURCES

_DEFAULT_PREFIXES = ("docker.io/", "index.docker.io/", "library/")


class Environment(msgspec.Struct, frozen=True, tag="environment"):
    """What a container of one image finds on this machine.

    `path` is put before the system's PATH; `interpreter` is what the command `python` starts (when
    None, PATH decides); `command` is the entry point of a container that names none."""

    path: tuple[str, ...] = ()
    working_dir: str | None = None
    env: dict[str, str] = {}
    interpreter: str | None = None
    command: tuple[str, ...] = ()


class Unavailable(msgspec.Struct, frozen=True, tag="unavailable"):
    """An image that this machine cannot run now, and the sentence that says why."""

    sentence: str


class ImageCatalog(msgspec.Struct, frozen=True):
    """What image names mean. A name without a tag stands for every tag."""

    entries: dict[str, Environment | Unavailable]

    def lookup(self, image: str) -> Environment | Unavailable:
        """Return the environment of an image as a container names it."""
        full, bare = _equivalent_names(image)
        found = self.entries.get(full) or self.entries.get(bare)
        if found is not None:
            return found
        known = ", ".join(sorted(self.entries)) or "none"
        return Unavailable(
            f'no environment on this machine stands for image "{image}"; known images: {known}'
        )

    def to_json(self) -> dict[str, Any]:
        """JSON values of the catalog."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values


def default_images(
    binaries_dir: Path | None, extra: Mapping[str, Path | str] | None = None
) -> ImageCatalog:
    """Return the images that this project's manifests and examples use.

    `binaries_dir` holds a kube-scheduler; without one the embedded stand-in is meant. `extra` maps
    an example image (`optimus-examples-mxnet`, `optimus-examples-tensorflow`) to the folder of its
    virtual environment, or to the sentence that says why there is none."""
    project = _python_environment(Path(sys.prefix))
    command = ("kube-scheduler",)
    if binaries_dir is not None:
        scheduler = Environment(path=(str(binaries_dir),), command=command)
    else:
        stand_in = Path(__file__).parent / "embedded" / "bin"
        path = (str(stand_in), *project.path)
        scheduler = msgspec.structs.replace(project, path=path, command=command)
    entries: dict[str, Environment | Unavailable] = {
        "optimus-on-kubernetes": project,
        "optimus-examples": project,
        "registry.k8s.io/kube-scheduler": scheduler,
        "busybox": Environment(command=("sh",)),
    }
    given = dict(extra or {})
    for name in ("optimus-examples-mxnet", "optimus-examples-tensorflow", *given):
        absent = f'the virtual environment of image "{name}" was not set up for this cluster'
        where = given.get(name, absent)
        entries[name] = (
            _python_environment(where) if isinstance(where, Path) else Unavailable(where)
        )
    return ImageCatalog(entries)


def _python_environment(venv: Path) -> Environment:
    """Return a virtual environment whose programs see the project's sources."""
    return Environment(
        path=(str(venv / "bin"),),
        working_dir=str(REPOSITORY),
        env={"PYTHONPATH": SOURCES, "VIRTUAL_ENV": str(venv)},
        interpreter=str(venv / "bin" / "python"),
    )


def _equivalent_names(image: str) -> tuple[str, str]:
    """Return the image with its tag and without it, both free of digest and default registry."""
    name = image.partition("@")[0]
    for prefix in _DEFAULT_PREFIXES:
        name = name.removeprefix(prefix)
    head, separator, tail = name.rpartition(":")
    return name, head if separator and "/" not in tail else name
