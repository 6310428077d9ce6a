"""How environments are named, and what is said when one cannot be made."""

from pathlib import Path

import pytest

from localcluster.environments import FRAMEWORKS, ensure_environment, environment_key
from localcluster.errors import BuildError
from localcluster.progress import PlainProgress

REQUIREMENTS = Path(__file__).resolve().parents[4] / "requirements"


def test_the_name_follows_the_pins_and_the_interpreter(tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b" / "a.txt"
    second.parent.mkdir()
    first.write_text("one==1")
    second.write_text("one==1")
    key = environment_key(first, "cpython-3-11")
    assert key.startswith("a-cpython-3-11-")
    assert environment_key(second, "cpython-3-11") == key
    assert environment_key(first, "cpython-3-12") != key
    second.write_text("one==2")
    assert environment_key(second, "cpython-3-11") != key


def test_a_missing_interpreter_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match=r"python9\.9 is not on PATH"):
        ensure_environment(tmp_path / "a.txt", "python9.9", PlainProgress(), tmp_path)


def test_a_missing_requirements_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        BuildError, match=r"requirements file .*absent\.txt cannot be read: No such file"
    ):
        environment_key(tmp_path / "absent.txt", "cpython-3-11")


@pytest.mark.parametrize("image", sorted(FRAMEWORKS))
def test_every_framework_has_pinned_requirements(image: str) -> None:
    text = (REQUIREMENTS / FRAMEWORKS[image][0]).read_text()
    assert "--hash=sha256:" in text
    assert "index-url" not in text
