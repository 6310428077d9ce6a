"""The JobSet controller with its webhooks, beside a running local cluster."""

import base64
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import trustme
import yaml

from localcluster.binaries.build import build_module
from localcluster.binaries.modules import JOBSET
from localcluster.cluster import LocalCluster
from localcluster.ports import pick_ports
from localcluster.progress import PlainProgress
from localcluster.storage import cache_root, read_yaml
from optimus.kube.job_kinds import JOBSET as KIND
from tests.harness.http_answers import body_of
from tests.harness.waiting import wait_until

_HOST: Final = "127.0.0.1"
_OF_JOBSETS: Final = {
    "matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]
}
"""As its own patches have it: it is asked about no other pods."""


@contextmanager
def jobset_controller(cluster: LocalCluster, folder: Path) -> Iterator[None]:
    """Run the controller as administrator; its CRD stays."""
    built = build_module(JOBSET, cache_root() / "binaries", PlainProgress())
    (crd,) = (built / "manifests" / "bases").glob("*.yaml")
    cluster.kubectl("apply", "--server-side", "-f", str(crd))
    wait_until("JobSets are served", lambda: _is_established(cluster))
    authority = trustme.CA()
    pair = authority.issue_cert(_HOST)
    (folder / "tls.crt").write_bytes(pair.cert_chain_pems[0].bytes())
    (folder / "tls.key").write_bytes(pair.private_key_pem.bytes())
    port, health = pick_ports(2)
    configuration = folder / "jobset.yaml"
    configuration.write_text(yaml.safe_dump(_configuration(port, health, folder)))
    webhooks = folder / "webhooks.yaml"
    found = _webhooks(built / "manifests" / "webhook" / "manifests.yaml", port, authority)
    webhooks.write_text(yaml.safe_dump_all(found))
    with (folder / "jobset.log").open("wb") as log:
        process = subprocess.Popen(
            [built / "jobset", f"--config={configuration}"],
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until("the JobSet controller is ready", lambda: body_of(health, "/readyz") == "ok")
            cluster.kubectl("apply", "--server-side", "-f", str(webhooks))
            yield
        finally:
            cluster.kubectl("delete", "--ignore-not-found", "-f", str(webhooks))
            process.terminate()
            process.wait(60)


def _is_established(cluster: LocalCluster) -> bool:
    conditions = cluster.get("crd", KIND.crd).get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _configuration(port: int, health: int, certificates: Path) -> dict[str, Any]:
    return {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{_HOST}:{health}"},
        "webhook": {"host": _HOST, "port": port, "certDir": str(certificates)},
    }


def _webhooks(manifest: Path, port: int, authority: trustme.CA) -> Iterator[dict[str, Any]]:
    """Its webhooks, by address: the API server reaches no Service here."""
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    for each in read_yaml(manifest):
        for webhook in each["webhooks"]:
            path = webhook["clientConfig"]["service"]["path"]
            url = f"https://{_HOST}:{port}{path}"
            webhook["clientConfig"] = {"url": url, "caBundle": bundle}
            if "pods" in webhook["rules"][0]["resources"]:
                webhook["objectSelector"] = _OF_JOBSETS
        yield {**each, "metadata": {"name": f"jobset-{each['kind'].lower()}"}}
