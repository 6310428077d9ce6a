"""``optimus train``."""

import json
from pathlib import Path

import pytest

from optimus.allocation.scorer import NAMES, Learned
from optimus.cli import train
from optimus.cli.main import main
from tests.unit.simulator.test_learning import three_jobs


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(train, "_EPISODES", 2)
    monkeypatch.setattr(train, "_COMPARED", range(3, 5))
    monkeypatch.setattr(train, "lesson_trace", three_jobs)
    monkeypatch.setattr(train, "trace_of_testbed", three_jobs)


def test_writes_weights_and_goes_on_from_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, again = (str(tmp_path / f"{name}.npz") for name in ("a", "b", "c"))
    assert main(["train", "--steps", "1", "--seed", "7", "--output", first, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["seed"], said["steps"], said["setting"]) == (7, 1, "testbed")
    assert said["ratio"] <= said["worst"]
    assert main(["train", "--steps", "1", "--seed", "7", "--output", again]) == 0
    assert "after 1 steps" in capsys.readouterr().out
    one, same = Learned.load(first), Learned.load(again)
    assert all((one.scorer.weights[name] == same.scorer.weights[name]).all() for name in NAMES)
    assert main(["train", "--steps", "1", "--resume", first, "--output", second]) == 0
    more = Learned.load(second)
    assert (more.seed, more.steps) == (7, 2)
    assert more.mark != one.mark


def test_wrong_files_and_seeds_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = str(tmp_path / "no" / "a.npz")
    assert main(["train", "--output", nowhere]) == 1
    assert "a file in a folder that exists is expected" in capsys.readouterr().err
    bad, out = tmp_path / "bad.npz", str(tmp_path / "out.npz")
    bad.write_bytes(b"no weights")
    assert main(["train", "--resume", str(bad), "--output", out]) == 1
    assert "`optimus train` has written are expected" in capsys.readouterr().err
    shipped = Path(train.__file__).parents[1] / "policies" / "dl2_testbed.npz"
    assert main(["train", "--resume", str(shipped), "--seed", "9", "--output", out]) == 1
    assert "1 is expected, that of --resume" in capsys.readouterr().err
