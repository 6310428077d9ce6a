"""The environments of the two frameworks, built once per machine from their pinned requirements."""

import sys
from pathlib import Path

import pytest

from localcluster.environments import ensure_environment, framework_environments
from localcluster.progress import PlainProgress
from tests.integration.examples_frameworks.processes import ROOT


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build both before the first test begins: the first time that takes longer than a test may."""
    here = Path(__file__).parent
    if not session.config.option.collectonly and any(
        item.path.is_relative_to(here) for item in session.items
    ):
        framework_environments(PlainProgress())


@pytest.fixture(scope="session")
def mxnet_python() -> str:
    """An interpreter that has MXNet. numpy 1.23.5 has no wheel for a Python newer than 3.11."""
    python = None if sys.version_info[:2] == (3, 11) else "python3.11"
    return _python(ensure_environment(ROOT / "requirements" / "mxnet.txt", python))


@pytest.fixture(scope="session")
def tensorflow_python() -> str:
    """An interpreter that has TensorFlow, which has no wheel for a Python newer than 3.13."""
    python = None if sys.version_info < (3, 14) else "python3.11"
    return _python(ensure_environment(ROOT / "requirements" / "tensorflow.txt", python))


def _python(environment: Path) -> str:
    return str(environment / "bin" / "python")


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow leaves files in the temporary folder when it is ended by a signal: here that is
    the test's own."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
