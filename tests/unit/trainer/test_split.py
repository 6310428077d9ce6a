"""One batch among any number of processes."""

import pytest

from optimus_trainer.split import Split, split_batch


@pytest.mark.parametrize(
    ("world", "most", "split"),
    [
        (None, None, Split(96, 1)),
        ("2", None, Split(48, 1)),
        ("2", 20, Split(16, 3)),
        ("4", 24, Split(24, 1)),
        ("96", 1, Split(1, 1)),
        ("1", 1, Split(1, 96)),
    ],
)
def test_all_processes_take_the_whole_batch_together(
    world: str | None, most: int | None, split: Split
) -> None:
    environment = {} if world is None else {"WORLD_SIZE": world}
    assert split_batch(96, most, environment) == split
    assert split.at_once * split.passes * int(world or "1") == 96


@pytest.mark.parametrize("world", ["5", "192"])
def test_unequal_parts_are_refused(world: str) -> None:
    with pytest.raises(ValueError, match=f"{world} processes cannot take equal parts of 96"):
        split_batch(96, environment={"WORLD_SIZE": world})
