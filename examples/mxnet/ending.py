"""The file that shows a container that its job's goal is met (`optimus.dl/at-target: complete`)."""

from __future__ import annotations

from pathlib import Path


def has_content(path: Path) -> bool:
    """Whether the file is there and not empty."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
