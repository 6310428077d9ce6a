"""Start-up errors: one line, before anything is served."""

from pathlib import Path

import pytest

from extender.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        pytest.param(
            ["--kubeconfig=none"],
            1,
            "extender: there is no kubeconfig file none\n",
            id="no kubeconfig",
        ),
        pytest.param(["--placement=nowhere"], 2, "extender: ", id="a setting that cannot be"),
        pytest.param(
            ["--tls-cert-file=c", "--client-ca-file=ca"],
            2,
            "extender: --tls-cert-file, --tls-private-key-file and --client-ca-file: all three or",
            id="TLS without a key",
        ),
    ],
)
def test_a_start_up_error_is_one_line(
    arguments: list[str],
    status: int,
    expected: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["extender", *arguments])
    assert main() == status
    line = capsys.readouterr().err
    assert line.startswith(expected)
    assert line.count("\n") == 1
