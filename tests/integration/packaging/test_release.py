"""How an image is built and released: what the files say, since no container engine runs here."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from localcluster.paths import REPOSITORY
from tests.harness.go_tools import ACTIONLINT, run_tool

WORKFLOW = REPOSITORY / ".github" / "workflows" / "release.yaml"
BAKE: dict[str, Any] = json.loads((REPOSITORY / "docker-bake.json").read_text())
DOCKERFILE = (REPOSITORY / "Dockerfile").read_text()


@pytest.mark.timeout(3600)  # with the first build of actionlint
def test_the_workflow_is_without_complaints() -> None:
    # What it would ask of other programs depends on the machine.
    options = ("-no-color", "-shellcheck=", "-pyflakes=")
    done = run_tool(ACTIONLINT.built(), *options, str(WORKFLOW))
    assert done.returncode == 0, done.stdout


def test_every_target_that_the_workflow_makes_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    made = re.findall(r"\bmake ([a-z-]+)", WORKFLOW.read_text())
    assert made
    assert set(made) <= targets


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


def test_the_workflow_names_files_that_are_there() -> None:
    text = WORKFLOW.read_text()
    for name in re.findall(r"\b(?:chart|manifests)/[\w./-]+\w", text):
        assert (REPOSITORY / name).exists(), name
    image = yaml.safe_load_all((REPOSITORY / "manifests/install/install.yaml").read_text())
    assert "optimus-on-kubernetes:0.1.0" in json.dumps(list(image))


def test_the_image_of_a_release_is_for_both_architectures_with_its_sbom() -> None:
    release, local = BAKE["target"]["release"], BAKE["target"]["local"]
    assert release["inherits"] == local["inherits"] == ["image"]
    assert release["platforms"] == ["linux/amd64", "linux/arm64"]
    assert [each.split(",")[0] for each in release["attest"]] == ["type=sbom", "type=provenance"]
    assert BAKE["group"]["default"]["targets"] == ["local"]


def test_the_variables_of_the_bake_file_are_those_that_it_uses_and_make_sets() -> None:
    used = set(re.findall(r"\$\{(\w+)\}", json.dumps(BAKE["target"])))
    assert used == BAKE["variable"].keys()
    # within `make test`, make says which directory it enters and leaves unless it is told not to
    asked = ("make", "--no-print-directory", "--dry-run", "image")
    named = ("IMAGE=registry.local/o", "VERSION=7")
    done = subprocess.run(
        (*asked, *named), cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    [line] = done.stdout.splitlines()
    for name in used:
        assert f'{name}="' in line
    assert 'IMAGE="registry.local/o" VERSION="7"' in line
    assert line.endswith("--file docker-bake.json local")


def test_arguments_of_the_bake_file_are_arguments_of_the_dockerfile() -> None:
    declared = set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))
    assert BAKE["target"]["image"]["args"].keys() <= declared
    version = BAKE["variable"]["VERSION"]["default"]
    assert f"ARG VERSION={version}\n" in DOCKERFILE
    chart = yaml.safe_load((REPOSITORY / "chart" / "Chart.yaml").read_text())
    assert version == chart["appVersion"]
    labels = set(re.findall(r"org\.opencontainers\.image\.(\w+)=", DOCKERFILE))
    assert {"title", "description", "licenses", "version", "revision"} <= labels


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
