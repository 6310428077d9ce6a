"""A proxy with faults before the API server of a running local cluster, on either back end."""

from pathlib import Path

from localcluster.cluster import LocalCluster
from localcluster.faults.proxy import FaultProxy
from localcluster.kubeconfig import read_kubeconfig


def proxy_for(cluster: LocalCluster, kubeconfig: Path | None = None) -> FaultProxy:
    """Return a proxy before the cluster's API server, as the user of a kubeconfig."""
    credentials = read_kubeconfig(kubeconfig or cluster.kubeconfig)
    return FaultProxy(credentials, lambda: cluster.kill("kube-apiserver"))
