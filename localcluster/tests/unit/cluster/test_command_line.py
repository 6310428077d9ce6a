"""What the command line makes of its arguments, and what it says when they are wrong."""

import json
from pathlib import Path

import pytest

from localcluster.__main__ import main
from localcluster.paths import ClusterPaths
from tests.cases import cases


@cases(
    ("arguments", "sentence"),
    {
        "a bad capacity": (["up", "--node", "cpu=four"], "cpu: 'four' is not a quantity"),
        "fewer nodes than none": (["up", "--nodes", "-1"], "'-1' is no number of nodes"),
        "a name that is no folder": (["up", "--name", "A/b"], "'A/b' is no name"),
        "an unknown command": (["fly"], "invalid choice: 'fly'"),
        "no command": ([], "the following arguments are required"),
    },
)
def test_bad_usage_is_refused(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as refused:
        main(arguments)
    assert refused.value.code == 2
    assert sentence in capsys.readouterr().err


def test_a_state_folder_that_cannot_be_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    assert main(["up", "--embedded", "--state", str(tmp_path / "file" / "state")]) == 1
    assert capsys.readouterr().err == f"localcluster: {tmp_path / 'file'}: File exists\n"


def test_the_status_of_no_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--state", str(tmp_path)]) == 3
    said = f"no cluster in {tmp_path}; `python -m localcluster up` starts one\n"
    assert capsys.readouterr().out == said


def test_a_cluster_without_its_supervisor_is_not_reported_as_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # Pid 1 lives, but it did not start at this tick of another boot.
    supervisor = {"pid": 1, "start_ticks": 1, "boot": "another"}
    component = {
        "phase": "ready",
        "process": supervisor,
        "restarts": 2,
        "last_exit": "was killed by signal 9",
    }
    status = {"phase": "running", "supervisor": supervisor, "components": {"etcd": component}}
    paths = ClusterPaths(tmp_path)
    paths.status.write_text(json.dumps(status))
    paths.logs.mkdir()
    paths.log("supervisor").write_text("2026-01-01T00:00:00Z etcd: died\n")
    assert main(["status", "--state", str(tmp_path)]) == 3
    said = capsys.readouterr().out
    assert "running, but its supervisor is gone: run `down`, then `up`" in said
    assert (
        "etcd                      ready         1         2         was killed by signal 9" in said
    )
    assert said.endswith("2026-01-01T00:00:00Z etcd: died\n")
