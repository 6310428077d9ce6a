"""Rules for every test run."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

_TESTS = Path(__file__).parent
_LONGEST_FIRST = ("e2e/loop", "e2e/scenarios", "e2e/frameworks", "integration/examples_frameworks")
"""Where several processes share the folders, the run ends soonest if none of these comes last."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the groups in its own hook
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the folder they live in, so that nobody has to remember to.

    The tests of one folder share a cluster, so that they also stay in one process (``--dist loadgroup``).
    """
    for item in items:
        folder = "/".join(item.path.relative_to(_TESTS).parts[:2])
        item.add_marker(pytest.mark.xdist_group(folder))
        for kind in ("integration", "e2e"):
            if kind in item.path.parts:
                item.add_marker(kind)
    ranks = {folder: rank for rank, folder in enumerate(_LONGEST_FIRST)}
    items.sort(key=lambda item: ranks.get("/".join(item.path.relative_to(_TESTS).parts[:2]), len(ranks)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where end-to-end tests are required, a skipped one is a failure: it proves nothing."""
    report = yield
    if report.skipped and os.environ.get("OPTIMUS_REQUIRE_E2E") and item.get_closest_marker("e2e"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where end-to-end tests are required: {report.longrepr}"
    return report
