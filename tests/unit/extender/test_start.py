"""How the extender is started: what cannot work is told in a line, before anything is served."""

from pathlib import Path

import pytest

from extender.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        pytest.param(
            ["--kubeconfig=none"],
            1,
            "extender: there is no kubeconfig file none\n",
            id="no kubeconfig",
        ),
        pytest.param(["--threads=many"], 2, "extender: ", id="a setting that cannot be"),
    ],
)
def test_what_cannot_work_is_one_line(
    arguments: list[str],
    status: int,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["extender", *arguments])
    assert main() == status
    line = capsys.readouterr().err
    assert line.startswith(said)
    assert line.count("\n") == 1
