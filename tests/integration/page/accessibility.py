"""axe-core, which looks at a page by the rules of WCAG 2.2: from the npm registry, pinned by hash,
installed once per machine beside the programs that tests build."""

import json
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from localcluster.storage import cache_root
from tests.integration.page.browser import Browser

_FOLDER: Final = Path(__file__).parent / "axe"
_SECONDS: Final = 300
_RULES: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


def axe_source() -> str:
    """The script. Skips the test where npm is not there, or does not get the package."""
    lock = (_FOLDER / "package-lock.json").read_bytes()
    folder = cache_root() / "binaries" / f"axe-{sha256(lock).hexdigest()[:12]}"
    script = folder / "node_modules" / "axe-core" / "axe.min.js"
    if not script.is_file():
        _install(folder)
    return script.read_text()


def _install(folder: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, which gets axe-core")
    folder.mkdir(parents=True, exist_ok=True)
    for each in _FOLDER.iterdir():
        shutil.copy(each, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        refuse = pytest.fail if os.environ.get("OPTIMUS_REQUIRE_BROWSER") else pytest.skip
        refuse(f"axe-core cannot be installed: {done.stderr[-2000:]}")


def violations(browser: Browser, source: str) -> list[str]:
    """What is wrong with the page that is shown: the rule, the element, and what is to be done."""
    browser.value(f"{source}; 0")
    options = {"runOnly": {"type": "tag", "values": list(_RULES)}}
    call = f"axe.run(document, {json.dumps(options)}).then((found) => found.violations)"
    found: list[dict[str, Any]] = browser.value(call)
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found
        for node in rule["nodes"]
    ]
