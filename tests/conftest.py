"""Rules for every test run."""

import os
from collections.abc import Generator

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by the folder they live in, so that nobody has to remember to."""
    for item in items:
        for kind in ("integration", "e2e"):
            if kind in item.path.parts:
                item.add_marker(kind)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where end-to-end tests are required, a skipped one is a failure: it proves nothing."""
    report = yield
    if report.skipped and os.environ.get("OPTIMUS_REQUIRE_E2E") and item.get_closest_marker("e2e"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where end-to-end tests are required: {report.longrepr}"
    return report
