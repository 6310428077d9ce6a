"""Which files of the MXNet example are checkpoints, and which examples its workers train."""

import json
from collections import Counter
from pathlib import Path

import pytest

from examples.mxnet.checkpoints import Checkpoint, CheckpointFolder
from examples.mxnet.dataset import PART, Reader, make_dataset
from tests.cases import cases


def test_a_folder_that_is_not_there_yet_holds_no_checkpoint(tmp_path: Path) -> None:
    assert CheckpointFolder(tmp_path / "missing", "model").newest() is None


def test_the_newest_checkpoint_is_the_one_with_most_steps_also_past_four_digits(
    tmp_path: Path,
) -> None:
    folder = CheckpointFolder(tmp_path, "model")
    for step in (9_999, 50, 10_000):
        folder.save(step, lambda path: path.touch())
    assert folder.newest() == Checkpoint(10_000, tmp_path / "model-10000.params")


def test_old_checkpoints_go_and_the_last_ones_stay(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, "model", keep=2)
    for step in (10, 20, 30):
        folder.save(step, lambda path: path.touch())
    assert [step for step, _ in folder.all()] == [20, 30]


@cases(
    "name",
    {
        "a file of another job": "other-0050.params",
        "a file that holds no parameters": "model-0050.states",
        "a network's description": "model-symbol.json",
        "a checkpoint whose writer was killed": ".model-0050.params.unfinished",
        "a name that only ends like one": "xmodel-0050.params",
    },
)
def test_not_taken_for_a_checkpoint(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert CheckpointFolder(tmp_path, "model").newest() is None


def test_a_writer_that_fails_leaves_the_last_checkpoint_the_newest(tmp_path: Path) -> None:
    folder = CheckpointFolder(tmp_path, "model")
    folder.save(10, lambda path: path.touch())

    def fail(path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        folder.save(20, fail)
    assert folder.newest() == Checkpoint(10, tmp_path / "model-0010.params")
    folder.forget_unfinished()
    assert [path.name for path in tmp_path.iterdir()] == ["model-0010.params"]


def test_through_rescales_and_losses_each_example_is_trained_once() -> None:
    data, trained, saved = make_dataset(1_000, seed=1), Counter[int](), None
    for workers, kept, lost in ((2, 9, 3), (3, 14, 0), (1, 11, 2), (4, 6, 1), (2, 20, 4)):
        readers = [Reader(data, 64, worker, workers, saved) for worker in range(workers)]
        for step in range(kept + lost):
            batches = [reader.next() for reader in readers]
            if step < kept:
                trained.update(int(example) for batch in batches for example in batch)
                saved = readers[0].saved()
    stored = json.loads(saved or "")
    for part, begin, end in stored["left"]:
        trained.update(range(int(part) * PART + begin, int(part) * PART + end))
    assert stored["epoch"] == 3
    assert trained == Counter(dict.fromkeys(range(1_000), 4))


def test_a_larger_data_set_begins_with_the_smaller_one() -> None:
    small, large = make_dataset(10, seed=3), make_dataset(20, seed=3)
    assert (large.features[:10] == small.features).all()
