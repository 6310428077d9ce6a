"""``optimus balance``: what it reads in checkpoints, and what it makes of them."""

import json
import os
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimus.cli.checkpoint_sizes import read_checkpoint
from optimus.cli.command import BadInput
from optimus.cli.main import main
from tests.cases import cases
from tests.unit.properties import examples

DATA = Path(__file__).parents[2] / "data" / "checkpoints"
FILES = sorted(set(DATA.iterdir()) - {DATA / "README.md"})


@cases(
    ("file", "framework", "expected"),
    {
        "TensorFlow 1: partitions are one variable, slots and the step are none": (
            "tf1-7.index",
            "TensorFlow",
            {"dense": (8, 16), "embedding": (60, 8)},
        ),
        "TensorFlow 2, named by its prefix": (
            "tf2",
            "TensorFlow",
            {
                "model/bias": (16,),
                "model/dense": (8, 16),
                "model/embedding": (60, 8),
                "model/half": (8,),
            },
        ),
        "MXNet's Module: no statistics": (
            "module-0007.params",
            "MXNet",
            {"embedding_weight": (60, 8), "dense_weight": (8, 16), "dense_bias": (16,)},
        ),
        "MXNet's Gluon": (
            "gluon.params",
            "MXNet",
            {"0.weight": (4, 3), "0.bias": (4,), "1.weight": (2, 4), "1.bias": (2,)},
        ),
    },
)
def test_the_parameters_of_real_checkpoints(
    file: str, framework: str, expected: dict[str, tuple[int, ...]]
) -> None:
    found = read_checkpoint(DATA / file)
    assert found.framework == framework
    assert {each.name: each.shape for each in found.parameters} == expected
    sizes = {each.name: each.value_bytes for each in found.parameters}
    assert sizes.pop("model/half", 2) == 2
    assert set(sizes.values()) == {4}


def answer(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    assert main(["balance", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_model_that_is_mostly_one_array(capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, DATA / "tf2.index", "--ps", "2..4")
    default = [each["default"]["largest_over_mean"] for each in found["ps"]]
    balanced = [each["balanced"]["largest_over_mean"] for each in found["ps"]]
    assert [round(each, 2) for each in default] == [1.58, 2.29, 3.06]
    assert max(balanced) <= 1.05
    # With three PSs only the bias is not beside the embedding any more.
    assert found["worth_having"] == {"default": [2, 3], "balanced": [2, 3, 4]}
    assert found["ps_unevenness"] == "1, 1.58, 2.29, 3.06"


def test_what_mxnet_cuts_and_hashes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    def array(rows: int) -> bytes:  # version 2, of 4 * rows values of float16, without the data
        return struct.pack("<IiiqqiiI", 0xF993FAC9, 0, 2, rows, 4, 1, 0, 2)

    file = tmp_path / "model.params"
    with file.open("wb") as opened:
        opened.write(struct.pack("<QQQ", 0x112, 0, 3))
        for rows in (250_000, 240_000, 10):
            opened.write(array(rows))
            opened.seek(8 * rows, os.SEEK_CUR)
        opened.write(struct.pack("<Q", 0))
    found = answer(capsys, file, "--ps", "2")["ps"][0]
    # A million values are cut; keys 1 and 2 go to servers 1 and 0.
    assert found["default"]["largest_bytes"] == 1_000_000 + 8 * 240_000
    assert (found["default"]["requests"], found["balanced"]["requests"]) == (4, 3)
    assert found["balanced"]["largest_over_mean"] <= 1.05


def test_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["balance", str(DATA / "module-0007.params"), "--ps", "3"]) == 0
    printed = capsys.readouterr().out
    assert "MXNet: 3 arrays of 624 values; the largest, embedding_weight, has 77%" in printed
    assert " 3     2.31  0.00     3 (1)      1.00  0.00     5 (3)\n" in printed
    assert "Worth having balanced: 3 PSs." in printed


def bent(name: str, position: int, replaced: bytes) -> bytes:
    content = (DATA / name).read_bytes()
    position %= len(content)
    return content[:position] + replaced + content[position + len(replaced) :]


@cases(
    ("content", "sentence"),
    {
        "an empty file": (b"", "this is neither"),
        "text": (b"step,loss\n" * 20, "this is neither"),
        "a checkpoint of PyTorch": (b"PK\3\4" + b"\0" * 60, "this is neither"),
        "an index that is cut off at its head": (
            (DATA / "tf2.index").read_bytes()[100:],
            "damaged",
        ),
        "a footer whose block is outside of the file": (
            bent("tf2.index", -48, b"\xff\xff\x7f" * 4),
            "outside of the file",
        ),
        "parameters that are cut off": (
            (DATA / "module-0007.params").read_bytes()[:1_000],
            "ends too early",
        ),
        "more arrays than any model has": (
            bent("gluon.params", 16, b"\xff" * 8),
            "more than 100000 arrays",
        ),
        "an array of 2^63 values": (
            bent("gluon.params", 36, struct.pack("<q", 2**62)),
            "impossible shape",
        ),
        "an array of many axes": (bent("gluon.params", 32, b"\xff\xff\xff\x7f"), "many axes"),
        "a sparse array": (bent("gluon.params", 28, b"\1"), "sparse arrays"),
        "a table without parameters": (
            b"\0\0\0\0\1\0\0\0" + b"\0" * 5 + b"\0\0\0\0\1\0\0\0" + b"\0" * 5
            + bytes([0, 8, 13, 8]) + b"\0" * 36 + struct.pack("<Q", 0xDB4775248B80FB57),
            "holds no parameters",
        ),
    },
)  # fmt: skip
def test_what_is_no_checkpoint_is_refused_with_a_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes, sentence: str
) -> None:
    file = tmp_path / "model.index"
    file.write_bytes(content)
    assert main(["balance", str(file)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"optimus: {file}: ")
    assert sentence in printed.err
    assert printed.err.count("\n") == 1


@cases(
    ("name", "sentence"),
    {
        "a file that is not there": ("missing", "No such file or directory"),
        "a folder": (".", "not a folder or device"),
        "a device that never ends": ("/dev/zero", "not a folder or device"),
    },
)
def test_what_is_no_file_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, sentence: str
) -> None:
    assert main(["balance", str(tmp_path / name)]) == 1
    assert sentence in capsys.readouterr().err


@examples(400)
@given(
    st.sampled_from(FILES),
    st.lists(st.tuples(st.integers(0, 3_000), st.binary(min_size=1, max_size=9)), max_size=4),
    st.integers(0, 3_000),
)
def test_a_damaged_file_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory,
    file: Path,
    changes: list[tuple[int, bytes]],
    lost: int,
) -> None:
    content = bytearray(file.read_bytes())
    for position, replaced in changes:
        start = position % len(content)
        content[start : start + len(replaced)] = replaced
    damaged = tmp_path_factory.getbasetemp() / "damaged"
    damaged.write_bytes(content[: len(content) - lost % len(content)] if lost % 3 else content)
    with suppress(BadInput):
        assert len(read_checkpoint(damaged).parameters) < 100


@pytest.mark.parametrize("text", ["0", "5..2", "two", "2..65", "²"])
def test_numbers_of_ps_that_are_none(capsys: pytest.CaptureFixture[str], text: str) -> None:
    with pytest.raises(SystemExit):
        main(["balance", str(DATA / "tf2"), "--ps", text])
    assert "numbers from 1 to 64 are expected" in capsys.readouterr().err
