"""What a shell, and kubectl for its plugin, are answered."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from optimus.cli.completion import SHELLS
from optimus.cli.main import main
from tests.cases import cases
from tests.unit.kube.job_json import job_json

_CALL = "from optimus.cli.completion import complete_plugin; complete_plugin()"


def completed(*words: str, kubeconfig: Path | str = "none") -> list[str]:
    """The lines that kubectl is answered. In a process of its own, as for kubectl."""
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig)}
    done = subprocess.run(
        [sys.executable, "-c", _CALL, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


@cases(
    ("words", "expected"),
    {
        "a command": (["s"], ["simulate", "status", ":4"]),
        "a choice": (["simulate", "--trace-format", "d"], ["dl2", ":4"]),
        "a job without a cluster": (["status", "d"], [":0"]),
    },
)
def test_the_last_word_is_completed(words: list[str], expected: list[str]) -> None:
    *found, directive = completed(*words)
    assert [*sorted(found), directive] == expected


def kubeconfig(tmp_path: Path, server: str) -> Path:
    contexts = [
        {"name": name, "context": {"cluster": "c", "user": "u", "namespace": namespace}}
        for name, namespace in (("first", "ns"), ("second", "other"))
    ]
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {}}],
        "contexts": contexts,
        "current-context": "first",
    }
    path = tmp_path / "config"
    path.write_text(json.dumps(document))
    return path


def test_jobs_are_completed_from_the_cluster_and_contexts_from_the_kubeconfig(
    tmp_path: Path, httpserver: HTTPServer
) -> None:
    jobs = [job_json(), job_json()]
    for job, name in zip(jobs, ("digits", "words"), strict=True):
        job["metadata"]["name"] = name
    path = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"
    listed = {"metadata": {"resourceVersion": "1"}, "items": jobs}
    httpserver.expect_request(path).respond_with_json(listed)
    config = kubeconfig(tmp_path, httpserver.url_for(""))
    assert completed("status", "", kubeconfig=config) == ["digits", "words", ":4"]
    assert completed("why", "--context", "se", kubeconfig=config) == ["second", ":4"]


@pytest.mark.parametrize("shell", SHELLS)
def test_there_is_a_script_for_each_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    assert "optimus" in capsys.readouterr().out


def test_bash_completes_by_the_script(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "bash"]) == 0
    script = tmp_path / "script"
    script.write_text(capsys.readouterr().out)
    checked = subprocess.run(
        ["bash", "-n", str(script)], capture_output=True, text=True, check=False
    )
    assert (checked.returncode, checked.stderr) == (0, "")
