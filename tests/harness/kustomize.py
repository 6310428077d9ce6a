"""What `kubectl kustomize` renders."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from localcluster.binaries.locate import resolve
from localcluster.progress import PlainProgress


def render(folder: Path) -> list[dict[str, Any]]:
    """Return the objects of a kustomization, by the machine's kubectl or the pinned one."""
    kubectl = shutil.which("kubectl") or str(resolve(PlainProgress())["kubectl"])
    command = [kubectl, "kustomize", "--load-restrictor=LoadRestrictionsNone", str(folder)]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    return [each for each in yaml.safe_load_all(text) if each]
