"""How an image is built and released: what the files say, since no container engine runs here."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from localcluster.paths import REPOSITORY
from tests.harness.go_tools import ACTIONLINT, run_tool

WORKFLOW = REPOSITORY / ".github" / "workflows" / "release.yaml"


@pytest.mark.timeout(3600)  # with the first build of actionlint
def test_the_workflow_is_without_complaints() -> None:
    # What it would ask of other programs depends on the machine.
    options = ("-no-color", "-shellcheck=", "-pyflakes=")
    done = run_tool(ACTIONLINT.built(), *options, str(WORKFLOW))
    assert done.returncode == 0, done.stdout


def test_the_workflow_may_only_make_releases() -> None:
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    (job,) = workflow["jobs"].values()
    # The token proves to the authority of the signatures which workflow signs.
    assert job["permissions"] == {"contents": "write", "id-token": "write"}


def test_actions_are_pinned_by_commit() -> None:
    used = re.findall(r"uses: (\S+)(.*)", WORKFLOW.read_text())
    assert len(used) == 5
    for name, comment in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", name), name
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), name


def step_with(text: str) -> str:
    """The script of the workflow's one step with a text."""
    (job,) = yaml.safe_load(WORKFLOW.read_text())["jobs"].values()
    (script,) = [each["run"] for each in job["steps"] if text in each.get("run", "")]
    return str(script)


@pytest.mark.timeout(3600)  # with the first build of helm
def test_the_packed_chart_and_the_rendered_manifests_name_the_image_that_was_pushed(
    helm: Path, tmp_path: Path
) -> None:
    """The workflow's own step, in a copy of what it reads; `make install-yaml` has been run."""
    for name in ("chart", "manifests", "scheduler-config"):
        shutil.copytree(REPOSITORY / name, tmp_path / name, symlinks=True)
    step = step_with("helm package")
    script = f"make() {{ [ $1 = install-yaml ]; }}\n{step}"
    pushed = "registry.local:5000/team/optimus-on-kubernetes"
    environ = {"IMAGE": pushed, "GITHUB_REF_NAME": "v0.1.0", "PATH": f"{helm.parent}:/usr/bin:/bin"}
    environ |= {"GITHUB_SERVER_URL": "https://code.example", "GITHUB_REPOSITORY": "o/r"}
    environ["HOME"] = str(tmp_path)
    command = ["bash", "-euo", "pipefail", "-c", script]
    subprocess.run(command, cwd=tmp_path, env=environ, check=True, timeout=300)

    (package,) = (tmp_path / "dist").glob("optimus-*.tgz")
    values = ("--kube-version=v1.36.3", "--set=monitoring.prometheusRule.enabled=true")
    rendered = run_tool(helm, "template", "optimus", str(package), *values)
    assert rendered.returncode == 0, rendered.stderr
    assert set(re.findall(r"runbook_url: (.*)", rendered.stdout)) == {
        "https://code.example/o/r/blob/v0.1.0/docs/operator-guide.md#alerts"
    }
    for text in (rendered.stdout, (tmp_path / "dist" / "install.yaml").read_text()):
        images = set(re.findall(r"image: \"?([^\s\"]*optimus[^\s\"]*)", text))
        assert images == {f"{pushed}:0.1.0"}
