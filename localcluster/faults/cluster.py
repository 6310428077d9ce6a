"""A proxy with faults before the API server of a running local cluster, on either back end."""

from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.embedded.apiserver.routes import COMPACT
from localcluster.errors import ClusterError
from localcluster.faults.proxy import FaultProxy
from localcluster.node.api import Api, ApiError, read_kubeconfig


class ClusterServer:
    """The API server of a local cluster, which its supervisor keeps alive."""

    def __init__(self, cluster: LocalCluster) -> None:
        """Act on this cluster."""
        self._cluster = cluster

    def restart(self) -> None:
        """Kill it."""
        self._cluster.kill("kube-apiserver")

    def compact(self) -> None:
        """Make it forget its history. Raises ClusterError on the real one, whose history is etcd's to forget."""
        try:
            Api(read_kubeconfig(self._cluster.kubeconfig)).create(COMPACT, {})
        except ApiError as error:
            raise ClusterError(f"only the embedded API server can be told to forget its history: {error}") from None


def before(cluster: LocalCluster, kubeconfig: Path | None = None) -> FaultProxy:
    """Return a proxy before the cluster's API server, as the administrator or as who a kubeconfig names."""
    return FaultProxy(read_kubeconfig(kubeconfig or cluster.kubeconfig), ClusterServer(cluster))
