"""Rules for every test run."""

import os

import pytest
from hypothesis import settings

from localcluster.binaries.modules import DEFAULT_OPERATOR, OPERATORS

pytest_plugins = ("localcluster.testing.clusters", "localcluster.testing.folders")

# On a busy machine an example may take any time; pytest's own time limit ends a test that hangs.
# Each run tries the same examples, so that a failure is one of the change. "random" draws others.
settings.register_profile("fixed", deadline=None, derandomize=True)
settings.register_profile("random", deadline=None)
# For `make check`, which sets it.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the conformance tests of the operator run with another version of the real one."""
    parser.addoption("--training-operator", choices=list(OPERATORS), default=DEFAULT_OPERATOR)
