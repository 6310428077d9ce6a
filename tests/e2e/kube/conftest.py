"""The product's own manifests on the shared cluster, and clients that are the ServiceAccounts which
they grant."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from localcluster.cluster import LocalCluster
from optimus.kube.client import Client, connect

MANIFESTS = Path(__file__).parents[3] / "manifests"
GRANTED = (
    "namespace.yaml",
    "crd-trainingprofiles.yaml",
    "crd-workloadprofiles.yaml",
    "rbac-autoscaler.yaml",
    "rbac-scheduler.yaml",
)


@pytest.fixture(scope="session")
def granted(cluster: LocalCluster) -> LocalCluster:
    """The cluster with the CRD and the rights; the two programs do not run."""
    for name in GRANTED:
        cluster.kubectl("apply", "--server-side", "--force-conflicts", "-f", str(MANIFESTS / name))
    for name in ("trainingprofiles", "workloadprofiles"):
        established = "--for=condition=Established"
        cluster.kubectl("wait", established, f"crd/{name}.optimus.dl", "--timeout=30s")
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
