"""A pytest plugin: marks tests by their folder or file, and hands folders out, longest first."""

import os
from collections.abc import Generator

import pytest
from xdist.remote import Producer  # type: ignore[import-untyped]  # pytest-xdist has no types
from xdist.scheduler import LoadScopeScheduling  # type: ignore[import-untyped]  # likewise


def pytest_addoption(parser: pytest.Parser) -> None:
    """Read from the project's configuration which folders take longest, and what a release runs."""
    parser.addini(
        "longest_first", "folders below tests/ that begin first, in this order", "linelist", []
    )
    parser.addini(
        "release",
        "folders and files below tests/ that only `make test-release` runs",
        "linelist",
        [],
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests by their folder or file."""
    release = [config.rootpath / "tests" / name for name in config.getini("release")]
    for item in items:
        for kind in ("integration", "e2e"):
            if kind in item.path.parts:
                item.add_marker(kind)
        if any(item.path.is_relative_to(each) for each in release):
            item.add_marker("release")
    ranks = {folder: rank for rank, folder in enumerate(config.getini("longest_first"))}
    items.sort(key=lambda item: ranks.get(_folder(item.nodeid), len(ranks)))


class FolderScheduling(LoadScopeScheduling):  # type: ignore[misc]  # likewise
    """Gives a process the tests of one folder after the other: they share a cluster."""

    def _split_scope(self, nodeid: str) -> str:
        return _folder(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FolderScheduling:
    """Where several processes run tests, share them out by folder."""
    return FolderScheduling(config, log)


def _folder(nodeid: str) -> str:
    """The folder of a test; one that runs on both control planes counts as two."""
    folder = "/".join(part for part in nodeid.split("/")[1:3] if not part.startswith("test_"))
    return f"{folder} embedded" if "embedded" in nodeid.partition("[")[2] else folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where end-to-end tests are required, a skipped one is a failure: it proves nothing."""
    report = yield
    if report.skipped and os.environ.get("OPTIMUS_REQUIRE_E2E") and item.get_closest_marker("e2e"):
        report.outcome = "failed"
        report.longrepr = f"skipped, where end-to-end tests are required: {report.longrepr}"
    return report
