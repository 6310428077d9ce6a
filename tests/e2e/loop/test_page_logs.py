"""The ends of logs on the page, with its readers' own tokens: whether the API server shows one is
decided by the token, and by nothing that the autoscaler has."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import pytest
import urllib3

from localcluster.node.launcher import tied
from localcluster.ports import pick_ports
from optimus.kube.reader_logs import LAST_LINES
from tests.harness.api import Json
from tests.harness.optimus_cluster import AUTOSCALER, REPOSITORY, OptimusCluster
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import small_job

pytestmark = pytest.mark.timeout(600)

JOB: Final = small_job("read", (1, 1))
POD: Final = "read-worker-0"


class LogPage(NamedTuple):
    """The page at a loopback port, as a reader behind `kubectl port-forward` has it."""

    port: int

    def get(self, path: str, token: str = "") -> Json | None:
        """The answer; none while there is no page, or no job of this name on it."""
        address = f"http://127.0.0.1:{self.port}/api/logs/{path}"
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        try:
            answer = urllib3.request("GET", address, headers=headers, retries=False)
        except urllib3.exceptions.HTTPError:
            return None
        return answer.json() if answer.status == 200 else None


@contextmanager
def page_with_logs(optimus: OptimusCluster, folder: Path) -> Iterator[LogPage]:
    """The page of an autoscaler that runs here as the cluster's administrator, and changes
    nothing: with its own rights every log could be read."""
    config, (port,) = folder / "config.yaml", pick_ports(1)
    config.write_text("autoscaler: {page-logs: true, tick-seconds: 0.5}")
    command = [
        *(sys.executable, "-m", "autoscaler", "--dry-run", "--listen=127.0.0.1:0"),
        f"--kubeconfig={optimus.cluster.kubeconfig}",
        f"--config={config}",
        f"--page-listen=127.0.0.1:{port}",
    ]
    with (folder / "autoscaler.log").open("wb") as log:
        process = subprocess.Popen(tied(command, REPOSITORY), stdout=log, stderr=log)
    try:
        yield LogPage(port)
    finally:
        process.terminate()
        process.wait(60)


def token_of(scenario: Scenario, name: str, *, may_read: bool) -> str:
    """A token as the page asks for it, of a new account with that one right or none."""

    def kubectl(*words: str) -> str:
        return scenario.optimus.cluster.kubectl("-n", scenario.namespace, *words)

    kubectl("create", "serviceaccount", name)
    if may_read:
        account = f"--serviceaccount={scenario.namespace}:{name}"
        kubectl("create", "role", name, "--verb=get", "--resource=pods/log")
        kubectl("create", "rolebinding", name, f"--role={name}", account)
    return kubectl("create", "token", name, "--duration=10m").strip()


def test_a_reader_sees_what_his_token_may_read_and_nobody_more(
    scenario: Scenario, tmp_path: Path
) -> None:
    scenario.submit(JOB)
    reader = token_of(scenario, "reader", may_read=True)
    stranger = token_of(scenario, "stranger", may_read=False)
    job = f"{scenario.namespace}/{JOB.name}"
    with page_with_logs(scenario.optimus, tmp_path) as page:

        def pods() -> list[str]:
            return [each["name"] for each in (page.get(job) or {}).get("pods", ())]

        def asked(token: str) -> Json:
            return page.get(f"{job}/{POD}", token) or {}

        scenario.wait(lambda: POD in pods(), "the page shows the job's pods")
        scenario.wait(lambda: "step=" in scenario.log(POD), "it trains")
        scenario.wait(lambda: "step=" in asked(reader)["text"], "the reader sees the log")
        seen = asked(reader)
        assert seen["problem"] == ""
        assert seen["text"].count("\n") <= LAST_LINES
        assert seen["text"] in scenario.log(POD)
        assert asked(stranger) == {
            "text": "",
            "problem": "this token may not read it: that needs the right to get pods/log in its "
            "namespace",
        }
        header, claims, signature = reader.split(".")
        assert asked(f"{header}.{claims}.{signature[::-1]}") == {
            "text": "",
            "problem": "the API server does not accept this token: it has expired, or is of "
            "another cluster",
        }
    printed = (tmp_path / "autoscaler.log").read_text()
    assert not [each for each in (reader, stranger) if each in printed]


def test_nobody_is_offered_a_log_where_they_are_not_switched_on(scenario: Scenario) -> None:
    scenario.submit(JOB)
    reader, job = token_of(scenario, "reader", may_read=True), f"{scenario.namespace}/{JOB.name}"
    annotations = scenario.optimus.pod_of(AUTOSCALER)["metadata"]["annotations"]
    page = LogPage(int(json.loads(annotations["localcluster/ports"])["8090"]))
    offer = scenario.wait(lambda: page.get(job), "the page shows the job")
    assert offer == {"offered": False, "why": "", "pods": [], "morePods": 0}
    refused = {"text": "", "problem": "the operator has not switched logs on"}
    scenario.wait(lambda: page.get(f"{job}/{POD}", reader) == refused, "the page says so")
