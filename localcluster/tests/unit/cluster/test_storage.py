"""Folders in the cache are complete or absent; files of state are whole or old."""

from pathlib import Path

import pytest

from localcluster.progress import PlainProgress
from localcluster.storage import cache_root, publish, read_json, write_json
from tests.cases import cases


@cases(
    ("environ", "folder"),
    {
        "as XDG says": ({"XDG_CACHE_HOME": "/somewhere"}, Path("/somewhere/optimus-on-kubernetes")),
        "in the home folder by default": ({}, Path.home() / ".cache/optimus-on-kubernetes"),
        "a relative path is ignored, as the specification says": (
            {"XDG_CACHE_HOME": "relative"},
            Path.home() / ".cache/optimus-on-kubernetes",
        ),
    },
)
def test_the_cache_lies(environ: dict[str, str], folder: Path) -> None:
    assert cache_root(environ) == folder


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


class TestAFileOfState:
    def test_stays_as_it_was_when_the_new_content_cannot_be_written(self, tmp_path: Path) -> None:
        write_json(tmp_path / "a.json", {"x": 1})
        with pytest.raises(TypeError):
            write_json(tmp_path / "a.json", {"x": object()})
        assert read_json(tmp_path / "a.json") == {"x": 1}
        assert [path.name for path in tmp_path.iterdir()] == ["a.json"]

    @pytest.mark.parametrize("text", ["", "{", "[]", "3"])
    def test_is_nothing_when_it_holds_no_object(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "a.json").write_text(text)
        assert read_json(tmp_path / "a.json") is None
