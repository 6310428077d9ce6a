"""Checkpoints on a mounted volume: complete or not there, whatever happens while one is written.

A file is one line of JSON (step, count, SHA-256 of the rest) and the parameters as float64. It is
written under a temporary name, synced, renamed, and the folder synced; the newest two are kept, so
that a damaged newest one costs a little progress and not all of it.
"""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from examples.light.frames import pack_values
from examples.light.problem import Vector

KEPT = 2
_PREFIX, _SUFFIX = "step-", ".checkpoint"


@dataclass(frozen=True)
class Checkpoint:
    """The parameters after that many updates."""

    step: int
    parameters: Vector


@dataclass(frozen=True)
class Restored:
    """What was found: the newest complete checkpoint, if any, and a sentence per file passed
    over."""

    checkpoint: Checkpoint | None
    refused: tuple[str, ...]


def save(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint; when this returns it is complete and survives a crash. OSError if it
    cannot be."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{_PREFIX}{checkpoint.step:012d}{_SUFFIX}"
    temporary = target.with_suffix(f".{os.getpid()}.partial")
    data = pack_values(checkpoint.parameters)
    header = {"step": checkpoint.step, "count": checkpoint.parameters.size, "sha256": _digest(data)}
    with temporary.open("wb") as file:
        file.write(json.dumps(header).encode() + b"\n" + data)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(target)
    _sync_folder(folder)
    _remove_old(folder, target)


def restore(folder: Path, count: int) -> Restored:
    """Load the newest complete checkpoint of `count` parameters; damaged files are passed over,
    never removed."""
    refused: list[str] = []
    for path in reversed(_paths(folder)):
        found = _load(path, count)
        if isinstance(found, Checkpoint):
            return Restored(found, tuple(refused))
        refused.append(found)
    return Restored(None, tuple(refused))


def _load(path: Path, count: int) -> Checkpoint | str:
    try:
        header_line, _, data = path.read_bytes().partition(b"\n")
        header = json.loads(header_line)
        step, stored, digest = int(header["step"]), int(header["count"]), str(header["sha256"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        return (
            f"checkpoint {path.name} is damaged and passed over: its header cannot be read "
            f"({error!r})"
        )
    if digest != _digest(data) or len(data) != stored * 8:
        return (
            f"checkpoint {path.name} is damaged and passed over: its {len(data)} bytes are not "
            "those written"
        )
    if stored != count:
        return (
            f"checkpoint {path.name} is passed over: it holds {stored} parameters, the model "
            f"has {count}"
        )
    return Checkpoint(step, np.frombuffer(data, dtype="<f8").astype(np.float64))


def _paths(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{_PREFIX}*{_SUFFIX}"))


def _remove_old(folder: Path, newest: Path) -> None:
    partial = list(
        folder.glob(f"{_PREFIX}*.partial")
    )  # left by a process that was killed while it wrote
    # Files of later steps were passed over by `restore`: they must not push the good ones out.
    good = [path for path in _paths(folder) if path.name <= newest.name]
    for path in [*good[:-KEPT], *partial]:
        path.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
