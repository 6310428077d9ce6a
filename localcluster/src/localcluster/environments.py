"""Virtual environments from pinned requirements files, for images with packages of their own.

An environment is named by the hash of its requirements and by the Python version, so it is built
once per machine."""

import hashlib
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from localcluster.commands import run
from localcluster.errors import BuildError
from localcluster.progress import PlainProgress, Progress
from localcluster.storage import cache_root, publish

# Image name -> requirements file and the interpreter that its packages were published for.
FRAMEWORKS: Mapping[str, tuple[str, str | None]] = {
    "optimus-examples-mxnet": ("mxnet.txt", "python3.11"),
    "optimus-examples-tensorflow": ("tensorflow.txt", "python3.11"),
}

# A library that a wheel expects from the system and does not bring -> the same library inside
# another wheel. The links lie beside the libraries of the first, where its loader looks before it
# looks in the system.
_SHARED_LIBRARIES: Mapping[str, str] = {
    "mxnet/libgomp.so.1": "pykdtree.libs/libgomp-*.so.1*",
    "mxnet/libquadmath.so.0": "numpy.libs/libquadmath-*.so.0*",
}

_REQUIREMENTS = Path(__file__).resolve().parents[3] / "requirements"
_SHORT_SECONDS = 60
_INSTALL_SECONDS = 1800
_PRINT_VERSION = (
    "import sys, platform; print(platform.python_implementation().lower(), "
    "*sys.version_info[:2], sep='-')"
)


def ensure_environment(
    requirements: Path,
    python: str | None = None,
    progress: Progress | None = None,
    cache: Path | None = None,
) -> Path:
    """Return the folder of a virtual environment that holds exactly what `requirements` pins.

    `python` names an interpreter (`python3.11`) to be found on PATH; None means the one that runs
    this. Raises BuildError with a sentence where that interpreter or a package cannot be had."""
    shown = progress or PlainProgress()
    interpreter = _find_python(python)
    key = environment_key(requirements, _version(interpreter))
    root = cache or cache_root() / "environments"
    root.mkdir(parents=True, exist_ok=True)

    def fill(work: Path) -> None:
        with shown.step(f"installing {requirements.name} into an environment of its own"):
            _install(interpreter, requirements, work)
            _link_libraries(work)
            _relocate(work, root / key)

    return publish(root / key, fill, shown)


def environment_key(requirements: Path, version: str) -> str:
    """Name an environment: equal for equal pins and interpreter (`version`: as `cpython-3-11`)."""
    try:
        text = requirements.read_bytes()
    except OSError as error:
        raise BuildError(
            f"the requirements file {requirements} cannot be read: {error.strerror}"
        ) from error
    digest = hashlib.sha256(text).hexdigest()
    return f"{requirements.stem}-{version}-{digest[:12]}"


def _find_python(python: str | None) -> str:
    if python is None:
        # Inside a virtual environment, the interpreter that it was made from: environments are not
        # nested.
        return getattr(sys, "_base_executable", None) or sys.executable
    found = shutil.which(python)
    if found is None:
        raise BuildError(
            f"{python} is not on PATH; the packages of this environment exist for that version only"
        )
    return found


def _version(interpreter: str) -> str:
    try:
        return run([interpreter, "-c", _PRINT_VERSION], _SHORT_SECONDS).strip()
    except BuildError as error:
        raise BuildError(f"{interpreter} does not run: {error}") from error


def _install(interpreter: str, requirements: Path, work: Path) -> None:
    run([interpreter, "-m", "venv", str(work)], _INSTALL_SECONDS)
    pip = [str(work / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "--no-input"]
    pinned = ["--require-hashes", "--only-binary", ":all:", "-r", str(requirements)]
    environ = {**os.environ, "PIP_NO_WARN_SCRIPT_LOCATION": "1"}
    run([*pip, "install", "--quiet", *pinned], _INSTALL_SECONDS, environ=environ)


def _link_libraries(work: Path) -> None:
    for packages in work.glob("lib/python*/site-packages"):
        for link, source in _SHARED_LIBRARIES.items():
            for library in sorted(packages.glob(source))[:1]:
                if (packages / link).parent.is_dir():
                    (packages / link).symlink_to(Path("..") / library.relative_to(packages))


def _relocate(work: Path, target: Path) -> None:
    """Replace the temporary folder in the scripts that pip wrote by the final one."""
    old, new = os.fsencode(work), os.fsencode(target)
    for file in [*(work / "bin").iterdir(), work / "pyvenv.cfg"]:
        if file.is_symlink() or not file.is_file():
            continue
        text = file.read_bytes()
        if old in text and b"\0" not in text:
            file.write_bytes(text.replace(old, new))


def framework_environments(progress: Progress | None = None) -> dict[str, Path | str]:
    """Prepare the framework examples: image name -> folder, or why there is none."""
    answer: dict[str, Path | str] = {}
    for image, (requirements, python) in FRAMEWORKS.items():
        try:
            answer[image] = ensure_environment(_REQUIREMENTS / requirements, python, progress)
        except BuildError as error:
            answer[image] = f'the environment of image "{image}" could not be made: {error}'
    return answer
