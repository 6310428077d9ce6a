"""Logs packed with gzip, xz or bzip2 are read by every command; a damaged archive is an error."""

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from optimus.cli import training_log
from optimus.cli.command import BadInput
from optimus.cli.main import main
from optimus.cli.training_log import read_log_lines
from tests.cases import cases

LOG = b"".join(b"epoch=%d loss=%.4f\n" % (n, 2.0 / n + 0.1) for n in range(1, 13))
PACKERS = {
    "gzip": (gzip.compress, ".gz"),
    "xz": (lzma.compress, ".xz"),
    "bzip2": (bz2.compress, ".bz2"),
}
Pack = Callable[[bytes], bytes]
COMMANDS = [("doctor",), ("forecast", "--target-loss", "0.15"), ("evaluate", "convergence")]


def run(
    command: tuple[str, ...], file: Path, printed: pytest.CaptureFixture[str]
) -> tuple[int, str]:
    """The status of a command on a file, and its answer without the file's name, or its error."""
    status = main([*command, str(file), "--json"])
    out, error = printed.readouterr()
    return status, json.dumps(json.loads(out)).replace(str(file), "LOG") if out else error


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@cases(("pack", "suffix"), PACKERS)
def test_a_packed_log_gives_the_answer_of_the_plain_one(
    pack: Pack,
    suffix: str,
    command: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    plain, packed = tmp_path / "train.log", tmp_path / f"train.log{suffix}"
    plain.write_bytes(LOG)
    packed.write_bytes(pack(LOG))
    expected = run(command, plain, capsys)
    assert expected[0] == 0
    assert run(command, packed, capsys) == expected


@cases(("pack", "suffix"), PACKERS)
def test_an_archive_is_known_by_its_first_bytes(pack: Pack, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    file.write_bytes(pack(LOG))
    assert read_log_lines(file) == LOG.decode().splitlines()


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@cases(("pack", "suffix"), PACKERS)
@cases(
    "damage",
    {
        "cut off": lambda packed: packed[:-20],
        "zeros": lambda packed: packed[:14] + bytes(len(packed) - 14),
        "flipped": lambda packed: packed[:60] + b"\xff\x00\x5a" + packed[63:],
        "no archive at all": lambda _: b"epoch=1 loss=2\n",
    },
)
def test_a_damaged_archive_is_one_sentence(
    damage: Callable[[bytes], bytes],
    pack: Pack,
    suffix: str,
    command: tuple[str, ...],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / f"train.log{suffix}"
    file.write_bytes(damage(pack(LOG)))
    status, error = run(command, file, capsys)
    assert status == 1
    assert len(error.splitlines()) == 1
    assert f"{file}: a complete {suffix_name(suffix)} archive is expected: " in error


def suffix_name(suffix: str) -> str:
    return {".gz": "gzip", ".xz": "xz", ".bz2": "bzip2"}[suffix]


@cases(("pack", "suffix"), PACKERS)
def test_an_archive_that_unpacks_to_too_much_is_refused(
    pack: Pack, suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_log, "_MOST_UNPACKED", 100)
    file = tmp_path / f"train.log{suffix}"
    file.write_bytes(pack(LOG))
    with pytest.raises(BadInput, match="text in an archive"):
        read_log_lines(file)
