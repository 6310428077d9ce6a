"""A proxy with faults before the API server of a running local cluster, on either back end."""

from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.faults.compaction import API_SERVER, forget_history
from localcluster.faults.proxy import FaultProxy
from localcluster.kubeconfig import read_kubeconfig


class ClusterServer:
    """The API server of a local cluster, which its supervisor keeps alive."""

    def __init__(self, cluster: LocalCluster) -> None:
        """Act on this cluster."""
        self._cluster = cluster

    def restart(self) -> None:
        """Kill it."""
        self._cluster.kill(API_SERVER)

    def compact(self) -> None:
        """Make it forget its history; the real one is another process afterwards. Raises
        ClusterError."""
        forget_history(self._cluster)


def before(cluster: LocalCluster, kubeconfig: Path | None = None) -> FaultProxy:
    """Return a proxy before the cluster's API server, as the administrator or as who a kubeconfig
    names."""
    return FaultProxy(read_kubeconfig(kubeconfig or cluster.kubeconfig), ClusterServer(cluster))
