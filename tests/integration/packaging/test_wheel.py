"""The wheel in a clean environment, with the newest packages that its bounds allow: every command
answers there, and with ``--json`` with JSON alone."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from pytest_httpserver import HTTPServer
from werkzeug import Request, Response

from localcluster.kubeconfig import kubeconfig_body
from localcluster.paths import REPOSITORY
from optimus.cli.commands import COMMANDS
from optimus.kube.errors import ErrorKind, KubeError
from tests.unit.cli.fake_api import FakeApi, pod, profile, stored_state
from tests.unit.cli.test_cluster_doctor import lease, whole
from tests.unit.kube.job_json import job_json

pytestmark = pytest.mark.timeout(1800)  # with the packages from their index

DATA: Final = REPOSITORY / "tests" / "data"
SIMULATION: Final = ("simulate", "--jobs", "3", "--seeds", "1", "--policies")
ARGUMENTS: Final[dict[tuple[str, ...], Sequence[str | Path]]] = {
    ("status",): ["j"],
    ("why",): ["j"],
    ("what-if",): ["j", "--workers", "+1"],
    ("advise",): [],
    ("forecast",): [DATA / "curves" / "mlp_noisy.log", "--target-loss", "0.15"],
    ("doctor",): [],
    ("simulate",): ["--jobs", "2", "--seeds", "1", "--policies", "drf,optimus"],
    ("evaluate", "speed"): [DATA / "ps_speed" / "mxnet_links200_speeds.csv"],
    ("evaluate", "convergence"): [DATA / "curves" / "mlp_noisy.log"],
    ("plan",): ["--jobs", DATA / "allocation" / "jobs_100.csv", "--nodes", "60"],
    ("completion",): ["bash"],
}


class Environment:
    """A virtual environment with the wheel."""

    def __init__(self, folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
        self._bin, self.kubeconfig = folder / "venv" / "bin", folder / "config"
        self.source = folder / "source"
        for name in ("autoscaler", "extender", "optimus", "trainer"):
            shutil.copytree(REPOSITORY / name, self.source / name)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(REPOSITORY / name, self.source)

    def install(self, what: str) -> None:
        options = ("--quiet", "--disable-pip-version-check", "--no-compile")
        subprocess.run([self._bin / "pip", "install", *options, what], check=True)

    def optimus(self, *words: str | Path) -> tuple[int, str, str]:
        """Runs the installed command far from the checkout."""
        unset = ("PYTHONPATH", "PYTHONHOME")
        environ = {name: value for name, value in os.environ.items() if name not in unset}
        done = subprocess.run(
            [self._bin / "optimus", *map(str, words)],
            env={**environ, "KUBECONFIG": str(self.kubeconfig)},
            cwd=self.source.parent,
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    found = Environment(tmp_path_factory.mktemp("wheel"))
    found.install(str(found.source))
    return found


@pytest.fixture
def cluster(environment: Environment, httpserver: HTTPServer) -> None:
    """A cluster with one job that trains, on which everything is right."""
    training = profile(state=stored_state(), loss=0.4, goal="loss <= 0.15")
    nodes = [{"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "64", "pods": "110"}}}]
    jobs = [job_json(target_loss="0.2")]
    held = lease("2999-01-01T00:00:00.000000Z")
    others = {path: held if "/leases/" in path else each for path, each in whole().items()}
    api = FakeApi(jobs, profiles=[training], pods=[pod(0), pod(1)], nodes=nodes, others=others)
    statuses = {ErrorKind.NOT_FOUND: 404, ErrorKind.FORBIDDEN: 403}

    def answer(request: Request) -> Response:
        try:
            body = api.get("read", request.path, list(request.args.items()))
        except KubeError as error:
            status = statuses.get(error.kind, 500)
            return Response(json.dumps({"message": error.sentence}), status)
        return Response(body)

    httpserver.expect_request(re.compile(".*")).respond_with_handler(answer)
    document = kubeconfig_body(httpserver.url_for(""), "", {}, "ns")
    environment.kubeconfig.write_text(json.dumps(document))


def test_every_command_is_run_here() -> None:
    assert ARGUMENTS.keys() == {each.path for each in COMMANDS}


@pytest.mark.parametrize("path", ARGUMENTS, ids=" ".join)
def test_a_command_answers_with_json_alone(
    path: tuple[str, ...], environment: Environment, cluster: None
) -> None:
    status, printed, told = environment.optimus(*path, *ARGUMENTS[path], "--json")
    assert "Traceback" not in told
    assert json.loads(printed), told
    assert status in (0, 3), told
    status, printed, told = environment.optimus(*path, *ARGUMENTS[path])
    assert (status in (0, 3), "Traceback" in told) == (True, False), told
    assert printed


def test_what_the_simulator_needs_beside_is_named_and_brought_by_its_extra(
    environment: Environment,
) -> None:
    gavel = (*SIMULATION, "gavel-makespan", "--json")
    status, printed, told = environment.optimus(*gavel)
    assert (status, printed) == (1, "")
    assert "pip install '.[simulator]'" in told
    environment.install(f"{environment.source}[simulator]")
    status, printed, told = environment.optimus(*gavel)
    assert status == 0, told
    assert list(json.loads(printed)["policies"]) == ["gavel-makespan"]
