"""Checkpoints: complete or not there; a damaged newest one costs only the way back to the one
before."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from examples.light.checkpoints import KEPT, Checkpoint, restore, save
from examples.light.problem import Vector
from tests.cases import cases

_COUNT = 7


def _parameters(step: int) -> Vector:
    return np.full(_COUNT, float(step))


def _save(folder: Path, *steps: int) -> None:
    for step in steps:
        save(folder, Checkpoint(step, _parameters(step)))


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_newest_one_is_restored_and_only_the_last_two_are_kept(tmp_path: Path) -> None:
    folder = tmp_path / "made" / "when needed"
    _save(folder, 5, 80, 1200)
    restored = restore(folder, _COUNT)
    assert restored.checkpoint is not None
    assert restored.checkpoint.step == 1200
    assert np.array_equal(restored.checkpoint.parameters, _parameters(1200))
    assert restored.refused == ()
    assert len(_names(folder)) == KEPT


def test_without_a_checkpoint_there_is_nothing_to_restore(tmp_path: Path) -> None:
    assert restore(tmp_path / "not there", _COUNT).checkpoint is None


def _truncate(data: bytes) -> bytes:
    return data[:-3]


def _flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@cases(
    "damage",
    {
        "the file was cut short": _truncate,
        "one bit has changed": _flip,
        "the file is empty": lambda data: b"",
        "the file is garbage": lambda data: b"\xff" * len(data),
        "the header is no object": lambda data: b"[]\n",
        "the header is lost": lambda data: data[data.index(b"\n") :],
    },
)
def test_a_damaged_newest_file_falls_back_to_the_one_before(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    _save(tmp_path, 10, 20)
    newest = tmp_path / _names(tmp_path)[-1]
    newest.write_bytes(damage(newest.read_bytes()))
    restored = restore(tmp_path, _COUNT)
    assert restored.checkpoint is not None
    assert restored.checkpoint.step == 10
    assert len(restored.refused) == 1
    assert newest.name in restored.refused[0]


def test_a_damaged_file_of_a_later_step_does_not_push_good_ones_out(tmp_path: Path) -> None:
    _save(tmp_path, 10, 100)
    newest = tmp_path / _names(tmp_path)[-1]
    newest.write_bytes(b"")
    _save(tmp_path, 20, 30)
    newest_good = restore(tmp_path, _COUNT).checkpoint
    assert newest_good is not None
    assert newest_good.step == 30


def test_a_checkpoint_of_another_model_is_passed_over_with_a_sentence(tmp_path: Path) -> None:
    _save(tmp_path, 10)
    restored = restore(tmp_path, _COUNT + 1)
    assert restored.checkpoint is None
    assert "holds 7 parameters, the model has 8" in restored.refused[0]


def test_what_a_killed_writer_left_is_never_restored_and_goes_with_the_next_save(
    tmp_path: Path,
) -> None:
    _save(tmp_path, 10)
    (tmp_path / "step-000000000020.99.partial").write_bytes(b"half a checkpo")
    found = restore(tmp_path, _COUNT).checkpoint
    assert found is not None
    assert found.step == 10
    _save(tmp_path, 30)
    assert not [name for name in _names(tmp_path) if name.endswith(".partial")]


def test_a_folder_that_cannot_be_written_is_an_error_and_leaves_the_old_ones(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(OSError, match="file"):
        save(tmp_path / "file", Checkpoint(1, _parameters(1)))
