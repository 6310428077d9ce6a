"""Checkpoints in MXNet's own files, named by step, that exist under their name only when they are
complete.

`<folder>/<prefix>-<step>.params` is written under another name, flushed to the disk and renamed. A
process that is killed while it writes leaves a file that nobody takes for a checkpoint.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple


class Checkpoint(NamedTuple):
    """A complete checkpoint: the number of steps that it holds, and its file."""

    step: int
    path: Path


class CheckpointFolder:
    """The checkpoints of one job in one folder, which all its workers can read."""

    def __init__(self, folder: Path, prefix: str, keep: int = 3) -> None:
        self._folder = folder
        self._prefix = prefix
        self._keep = keep
        self._name = re.compile(re.escape(prefix) + r"-(\d{4,})\.params")

    def all(self) -> list[Checkpoint]:
        """Every complete checkpoint, oldest first."""
        if not self._folder.is_dir():
            return []
        matches = ((self._name.fullmatch(path.name), path) for path in self._folder.iterdir())
        return sorted(Checkpoint(int(match[1]), path) for match, path in matches if match)

    def newest(self) -> Checkpoint | None:
        """The complete checkpoint with the most steps, or None where there is none yet."""
        return max(self.all(), default=None)

    def save(self, step: int, write: Callable[[Path], None]) -> Path:
        """Let `write` fill a file and give it its name once it is on the disk; old ones go. Returns
        the name."""
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / f"{self._prefix}-{step:04d}.params"
        unfinished = self._unfinished(path)
        write(unfinished)
        with unfinished.open("rb") as file:
            os.fsync(file.fileno())
        unfinished.replace(path)
        for old in self.all()[: -self._keep]:
            old.path.unlink(missing_ok=True)
        return path

    def forget_unfinished(self) -> None:
        """Remove what a killed process left half-written. Only to be called while nobody writes."""
        for path in self._folder.glob(f".{self._prefix}-*.unfinished"):
            path.unlink(missing_ok=True)

    @staticmethod
    def _unfinished(path: Path) -> Path:
        return path.with_name(f".{path.name}.unfinished")
