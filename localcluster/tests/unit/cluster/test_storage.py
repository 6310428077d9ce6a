"""Folders in the cache are complete or absent; files of state are whole or old."""

from pathlib import Path

import pytest

from localcluster.progress import PlainProgress
from localcluster.storage import publish


class TestAFolderOfTheCache:
    def test_is_filled_once(self, tmp_path: Path) -> None:
        calls: list[Path] = []

        def fill(work: Path) -> None:
            calls.append(work)
            (work / "file").write_text("content")

        for _ in range(2):
            assert publish(tmp_path / "key", fill, PlainProgress()) == tmp_path / "key"
        assert (tmp_path / "key" / "file").read_text() == "content"
        assert len(calls) == 1
        assert calls[0] != tmp_path / "key"

    def test_is_absent_after_a_failure_and_filled_by_the_next_try(self, tmp_path: Path) -> None:
        def fail(work: Path) -> None:
            (work / "half").touch()
            raise OSError("the disk is full")

        with pytest.raises(OSError, match="the disk is full"):
            publish(tmp_path / "key", fail, PlainProgress())
        assert [path.name for path in tmp_path.iterdir()] == ["key.lock"]
        publish(tmp_path / "key", lambda work: (work / "whole").touch(), PlainProgress())
        assert [path.name for path in (tmp_path / "key").iterdir()] == ["whole"]
