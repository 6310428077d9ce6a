"""Controllers with webhooks that are no part of a local cluster, beside a running one: those of
JobSet and of Kubeflow Trainer."""

import base64
import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import trustme
import yaml

from localcluster.binaries.build import build_module
from localcluster.binaries.modules import JOBSET, TRAINERS, GoModule
from localcluster.cluster import LocalCluster
from localcluster.node.launcher import tied
from localcluster.ports import pick_ports
from localcluster.progress import PlainProgress
from localcluster.storage import cache_root, read_yaml
from tests.harness.http_answers import body_of
from tests.harness.waiting import wait_until

_HOST: Final = "127.0.0.1"
_OF_JOBSETS: Final = {
    "matchExpressions": [{"key": "jobset.sigs.k8s.io/jobset-name", "operator": "Exists"}]
}
"""As the patches of JobSet have it: it is asked about no other pods."""


@dataclass(frozen=True)
class Controller:
    """How one is built and configured."""

    module: GoModule
    configuration: Mapping[str, Any]
    """With its own certificates switched off."""


JOBSET_CONTROLLER: Final = Controller(
    JOBSET,
    {
        "apiVersion": "config.jobset.x-k8s.io/v1alpha1",
        "internalCertManagement": {"enable": False},
    },
)


def trainer_named() -> str:
    """The version of Kubeflow Trainer that ``OPTIMUS_TEST_TRAINER`` names; empty without. Its build
    takes minutes."""
    return os.environ.get("OPTIMUS_TEST_TRAINER", "")


def trainer_controller() -> Controller:
    """That of the version that is named."""
    configuration = {
        "apiVersion": "config.trainer.kubeflow.org/v1alpha1",
        "certManagement": {"enable": False},
    }
    return Controller(TRAINERS[trainer_named()], configuration)


@contextmanager
def running(controller: Controller, cluster: LocalCluster, folder: Path) -> Iterator[None]:
    """Run the controller as administrator; its CRDs stay. Its log lies in ``folder``."""
    module = controller.module
    built = build_module(module, cache_root() / "binaries", PlainProgress())
    manifests = [
        each
        for file in sorted((built / "manifests").glob("*/*.yaml"))
        for each in read_yaml(file)
        if isinstance(each, dict)
    ]
    crds = _applied(cluster, folder, "crds", _of_kind(manifests, "CustomResourceDefinition"))
    wait_until("its kinds are served", lambda: all(_is_served(cluster, each) for each in crds))
    authority = trustme.CA()
    temporary = _with_certificate(folder, authority)
    port, health = pick_ports(2)
    configuration = folder / f"{module.name}.yaml"
    configuration.write_text(yaml.safe_dump(_configuration(controller, port, health)))
    with (folder / f"{module.name}.log").open("wb") as log:
        process = subprocess.Popen(
            tied([built / module.name, f"--config={configuration}"], folder),
            env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "TMPDIR": str(temporary)},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        webhooks = [
            _by_address(each, module.name, port, authority)
            for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
            for each in _of_kind(manifests, kind)
        ]
        try:
            wait_until(f"{module.name} is ready", lambda: body_of(health, "/readyz") == "ok")
            _applied(cluster, folder, "webhooks", webhooks)
            yield
        finally:
            file = str(folder / "webhooks.yaml")
            cluster.kubectl("delete", "--ignore-not-found", "-f", file)
            process.terminate()
            process.wait(60)


def _of_kind(manifests: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [each for each in manifests if each.get("kind") == kind]


def _applied(
    cluster: LocalCluster, folder: Path, name: str, objects: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Apply the objects, which stay in a file of this name."""
    file = folder / f"{name}.yaml"
    file.write_text(yaml.safe_dump_all(objects))
    cluster.kubectl("apply", "--server-side", "-f", str(file))
    return objects


def _is_served(cluster: LocalCluster, crd: Mapping[str, Any]) -> bool:
    found = cluster.get("crd", crd["metadata"]["name"]).get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in found)


def pod_until(file: Path, container: str) -> dict[str, Any]:
    """The spec of a pod of one CPU that ends once the file is there."""
    program = f"import os, time\nwhile not os.path.exists({str(file)!r}): time.sleep(0.2)"
    main = {
        "name": container,
        "image": "optimus-examples:0.1.0",
        "command": ["python", "-c", program],
        "resources": {"requests": {"cpu": "1", "memory": "64Mi"}},
    }
    return {
        "schedulerName": "optimus-scheduler",
        "terminationGracePeriodSeconds": 1,
        "containers": [main],
    }


def _with_certificate(folder: Path, authority: trustme.CA) -> Path:
    """A folder for temporary files that has the certificate where controllers look for it."""
    certificates = folder / "k8s-webhook-server" / "serving-certs"
    certificates.mkdir(parents=True)
    pair = authority.issue_cert(_HOST)
    (certificates / "tls.crt").write_bytes(pair.cert_chain_pems[0].bytes())
    (certificates / "tls.key").write_bytes(pair.private_key_pem.bytes())
    return folder


def _configuration(controller: Controller, port: int, health: int) -> dict[str, Any]:
    return {
        **controller.configuration,
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"{_HOST}:{health}"},
        "webhook": {"host": _HOST, "port": port},
    }


def _by_address(
    manifest: Mapping[str, Any], name: str, port: int, authority: trustme.CA
) -> dict[str, Any]:
    """Its webhooks, by address: the API server reaches no Service here."""
    bundle = base64.b64encode(authority.cert_pem.bytes()).decode()
    webhooks = []
    for webhook in manifest["webhooks"]:
        url = f"https://{_HOST}:{port}{webhook['clientConfig']['service']['path']}"
        found = {**webhook, "clientConfig": {"url": url, "caBundle": bundle}}
        if "pods" in webhook["rules"][0]["resources"]:
            found["objectSelector"] = _OF_JOBSETS
        webhooks.append(found)
    return {
        **manifest,
        "webhooks": webhooks,
        "metadata": {"name": f"{name}-{manifest['kind'].lower()}"},
    }
