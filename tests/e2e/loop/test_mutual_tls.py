"""kube-scheduler and the extender with mutual TLS, as the operator guide sets it up."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from localcluster.paths import REPOSITORY
from tests.harness.guide_commands import block
from tests.harness.http_answers import body_of
from tests.harness.optimus_cluster import SCHEDULER, OptimusCluster
from tests.harness.scenario import Scenario
from tests.harness.small_jobs import small_job

GUIDE: Final = REPOSITORY / "docs" / "operator-guide.md"
CONFIG: Final = REPOSITORY / "manifests" / "mtls" / "scheduler-config.yaml"


@pytest.fixture
def certificates(optimus: OptimusCluster, tmp_path: Path) -> None:
    """Made by the guide's commands in an empty folder."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "kubectl").symlink_to(optimus.cluster.binaries["kubectl"])
    environ = {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "KUBECONFIG": str(optimus.cluster.kubeconfig),
    }
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block(GUIDE, "Mutual TLS")],
        cwd=tmp_path,
        env=environ,
        check=True,
    )


@pytest.fixture
def mutual_tls(optimus: OptimusCluster, certificates: None) -> Iterator[None]:
    """Both processes run with the component; afterwards without it again."""
    config: str = yaml.safe_load(CONFIG.read_text())["data"]["kube-scheduler-config.yaml"]
    optimus.deploy("mtls", scheduler_config=config)
    yield
    optimus.deploy()


def extender_port(optimus: OptimusCluster) -> int:
    annotations = optimus.pod_of(SCHEDULER)["metadata"]["annotations"]
    return int(json.loads(annotations["localcluster/ports"])["8888"])


@pytest.mark.usefixtures("mutual_tls")
@pytest.mark.timeout(600)
def test_a_gang_is_placed_by_calls_with_certificates_and_nobody_else_may_call(
    optimus: OptimusCluster, scenario: Scenario
) -> None:
    job = small_job("secured", (1, 2))
    scenario.submit(job)
    scenario.wait_bound(job)
    assert body_of(extender_port(optimus), "/healthz") is None, "without TLS"
