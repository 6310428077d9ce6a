"""``python -m tests.integration.page.pictures docs/images``: the page of a sample cluster."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.integration.page.browser import Browser, find_chromium
from tests.integration.page.conftest import served
from tests.unit.autoscaler.web.sample_cluster import SampleCluster

_JOBS = 18
_WIDTH, _HEIGHT = 1280, 720


def main() -> int:
    """Serve the cluster and take the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder
    program = find_chromium()
    if program is None:
        sys.stderr.write("no Chromium is installed\n")
        return 1
    with (
        served(SampleCluster(_JOBS)) as page,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile,
        Browser(program, Path(profile)) as browser,
    ):
        browser.look(_WIDTH, _HEIGHT)
        browser.open(page.address)
        browser.wait("!!document.querySelector('.line')")
        browser.value("document.fonts.ready.then(() => true)")
        browser.screenshot(folder / "page-light.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
