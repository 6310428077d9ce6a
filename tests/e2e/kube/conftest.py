"""The product's own manifests on the shared cluster, and clients that are the ServiceAccounts which
they grant."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from localcluster.cluster import LocalCluster
from localcluster.errors import KubectlError
from optimus.kube.client import Client, connect
from tests.harness.waiting import wait_until

MANIFESTS = Path(__file__).parents[3] / "manifests"
GRANTED = (
    "namespace.yaml",
    "crds/crd-trainingprofiles.yaml",
    "crds/crd-workloadprofiles.yaml",
    "rbac-autoscaler.yaml",
    "rbac-scheduler.yaml",
)


ACCOUNTS = "system:serviceaccount:optimus-system"
IN_FORCE = (
    ("optimus-autoscaler", "patch", "tfjobs.kubeflow.org"),
    ("optimus-scheduler", "watch", "mxjobs.kubeflow.org"),
    ("optimus-scheduler", "patch", "pods", "--subresource=status"),
)
"""Rights that each binding grants. An API server hears of them a moment after they are stored."""


def is_answered(cluster: LocalCluster, *command: str) -> bool:
    """Whether a kubectl command succeeds."""
    try:
        cluster.kubectl(*command)
    except KubectlError:
        return False
    return True


@pytest.fixture(scope="session")
def granted(cluster: LocalCluster) -> LocalCluster:
    """The cluster with the CRDs and the rights, in force; the two programs do not run."""
    for name in GRANTED:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(MANIFESTS / name))
    wait_until("the profiles are served", lambda: is_answered(cluster, "get", "tprof,wprof", "-A"))
    for account, *right in IN_FORCE:
        asked = ("auth", "can-i", *right, "-A", f"--as={ACCOUNTS}:{account}")
        wait_until(f"{account} has its rights", partial(is_answered, cluster, *asked))
    return cluster


@pytest.fixture(scope="session")
def client_of(
    granted: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Client]]:
    """A client that is one of the two ServiceAccounts, by its token."""
    clients: list[Client] = []

    def make(account: str) -> Client:
        folder = tmp_path_factory.mktemp(account)
        token = granted.kubectl("create", "token", account, "-n", "optimus-system", "--duration=1h")
        (folder / "token").write_text(token)
        document = yaml.safe_load(Path(granted.kubeconfig).read_text())
        for user in document["users"]:
            user["user"] = {"tokenFile": "token"}
        (folder / "kubeconfig").write_text(yaml.safe_dump(document))
        clients.append(connect(folder / "kubeconfig", user_agent=f"test-{account}"))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


@pytest.fixture(scope="session")
def autoscaler(client_of: Callable[[str], Client]) -> Client:
    return client_of("optimus-autoscaler")


@pytest.fixture(scope="session")
def scheduler(client_of: Callable[[str], Client]) -> Client:
    return client_of("optimus-scheduler")
