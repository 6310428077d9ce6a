"""Real MXNet and TensorFlow: each example of an epoch is trained once through five rescales."""

from pathlib import Path

import pytest

from tests.e2e.trainer.framework_processes import Environments, run, run_mxnet

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SIZES = (20, 37, 11)
RUNS = ((1, 2, 5, 3), (2, 3, 4, 4), (1, 1, 5, 3), (2, 4, 6, 5), (1, 2, 9, 9))
"""Servers, workers, steps, and steps until the last checkpoint: what follows is lost."""


def test_mxnet_trains_record_io_parts(frameworks: Environments, tmp_path: Path) -> None:
    run(frameworks, "mxnet", "write_records.py", tmp_path, *SIZES)
    firsts = {f"part-{number}": sum(SIZES[:number]) for number in range(len(SIZES))}
    for servers, workers, steps, kept in RUNS:
        said = run_mxnet(frameworks, servers, workers, "mxnet_shards.py", tmp_path, steps, kept)
        (saved,) = (each for each in said if "counts" in each)
        counts = list(saved["counts"])
        for chunk, begin, end in saved["left"]:
            for example in range(firsts[chunk] + begin, firsts[chunk] + end):
                counts[example] += 1
        assert counts == [saved["epoch"] + 1] * sum(SIZES)
    assert saved["epoch"] >= 4


def test_tensorflow_reads_files(frameworks: Environments, tmp_path: Path) -> None:
    (found,) = run(frameworks, "tensorflow", "tensorflow_shards.py", tmp_path)
    assert set(found["counts"]) == {found["passes"]}
    assert found["passes"] == 4
