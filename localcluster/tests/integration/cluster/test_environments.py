"""An environment is made from a pinned file by the machine's pip, and stands under its final
name."""

import hashlib
import subprocess
import zipfile
from pathlib import Path

import pytest

from localcluster.environments import ensure_environment
from localcluster.errors import BuildError
from localcluster.progress import PlainProgress

_FILES = {
    "tiny.py": "def main() -> None:\n    print('tiny runs')\n",
    "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
    "tiny-1.0.dist-info/WHEEL": (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "tiny-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny = tiny:main\n",
}


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A requirements file that pins a wheel made here, and a pip configuration that finds it."""
    wheel = tmp_path / "wheels" / "tiny-1.0-py3-none-any.whl"
    wheel.parent.mkdir()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in _FILES.items():
            archive.writestr(name, text)
        record = "".join(f"{name},,\n" for name in [*_FILES, "tiny-1.0.dist-info/RECORD"])
        archive.writestr("tiny-1.0.dist-info/RECORD", record)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    pins = tmp_path / "tiny.txt"
    pins.write_text(f"tiny==1.0 --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n")
    return pins


def test_its_programs_run_from_its_final_folder_and_it_is_made_once(
    pins: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "cache"
    folder = ensure_environment(pins, None, PlainProgress(), cache)
    assert folder.parent == cache
    ran = subprocess.run(
        [folder / "bin" / "tiny"], capture_output=True, text=True, check=True, timeout=180
    )
    assert ran.stdout == "tiny runs\n"
    assert ensure_environment(pins, None, PlainProgress(), cache) == folder
    assert (
        capsys.readouterr().err.count("installing tiny.txt into an environment of its own: done")
        == 1
    )


def test_a_package_with_another_hash_is_refused_and_nothing_is_left(
    pins: Path, tmp_path: Path
) -> None:
    pins.write_text(f"tiny==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(BuildError, match="THESE PACKAGES DO NOT MATCH THE HASHES"):
        ensure_environment(pins, None, PlainProgress(), tmp_path / "cache")
    assert [path.suffix for path in (tmp_path / "cache").iterdir()] == [".lock"]
