"""The components of a control plane as values: command line, environment, readiness probe.

Pure: nothing is started here. The flags were tried against the pinned versions."""

import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from localcluster import bootstrap, webhook
from localcluster.binaries.locate import Binaries
from localcluster.identities import ADMIN
from localcluster.paths import REPOSITORY, SOURCES, ClusterPaths
from localcluster.readiness import AllProbe, HttpProbe, LogLineProbe, Probe
from localcluster.specs import NodeSpec

SERVICE_RANGE = "10.96.0.0/16"
AGENT = "node-agent"
OPERATOR = "training-operator"
PYTHON_ENVIRON: Mapping[str, str] = {"PYTHONPATH": SOURCES, "PYTHONUNBUFFERED": "1"}
"""Variables of the components that are programs of this checkout."""


@dataclass(frozen=True)
class Ports:
    """The loopback ports of one cluster."""

    etcd: int
    etcd_peer: int
    api: int
    controllers: int
    scheduler: int
    operator_health: int
    webhook: int


@dataclass(frozen=True)
class Component:
    """One process to keep alive.

    `grace_seconds` is how long it may take to end after SIGTERM; `death_signal` reaches it when the
    supervisor dies."""

    name: str
    command: Sequence[str]
    probe: Probe
    environ: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    grace_seconds: float = 10.0
    death_signal: signal.Signals = signal.SIGKILL


@dataclass(frozen=True)
class Recipe:
    """All that the command lines depend on."""

    paths: ClusterPaths
    binaries: Binaries
    ports: Ports
    audit: bool = False
    """Whether the API server logs every request that is no read, once it has ended."""

    def serving_probe(self, port: int, path: str = "/healthz") -> HttpProbe:
        """Return a probe of a component that serves with the cluster's certificate."""
        return HttpProbe(port, path, self.paths.pki / "ca.crt")

    def serving_flags(self, port: int) -> tuple[str, ...]:
        """Return the flags, common to all Kubernetes components, of serving on loopback."""
        pki = self.paths.pki
        return (
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={pki / 'serving.crt'}",
            f"--tls-private-key-file={pki / 'serving.key'}",
        )

    def client_flags(self, name: str) -> tuple[str, ...]:
        """Return the flags with which a component finds the API server."""
        kubeconfig = self.paths.kubeconfig_of(name)
        return (
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
        )


def etcd(recipe: Recipe) -> Component:
    """Return the store: TLS for clients and peers, no fsync, since nothing outlives the cluster."""
    pki, ports = recipe.paths.pki, recipe.ports
    client, peer = f"https://127.0.0.1:{ports.etcd}", f"https://127.0.0.1:{ports.etcd_peer}"
    command = (
        str(recipe.binaries["etcd"]),
        "--name=local",
        f"--data-dir={recipe.paths.data / 'etcd'}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=local={peer}",
        *(f"--{side}client-cert-auth" for side in ("", "peer-")),
        *(f"--{side}trusted-ca-file={pki / 'etcd-ca.crt'}" for side in ("", "peer-")),
        *(f"--{side}cert-file={pki / 'etcd.crt'}" for side in ("", "peer-")),
        *(f"--{side}key-file={pki / 'etcd.key'}" for side in ("", "peer-")),
    )
    probe = HttpProbe(ports.etcd, "/readyz", pki / "etcd-ca.crt", pki / "etcd-client")
    return Component("etcd", command, probe)


def api_server(recipe: Recipe) -> Component:
    """Return the API server: RBAC, certificates for clients, bound to loopback."""
    pki = recipe.paths.pki
    command = (
        str(recipe.binaries["kube-apiserver"]),
        f"--etcd-servers=https://127.0.0.1:{recipe.ports.etcd}",
        f"--etcd-cafile={pki / 'etcd-ca.crt'}",
        f"--etcd-certfile={pki / 'etcd-client.crt'}",
        f"--etcd-keyfile={pki / 'etcd-client.key'}",
        *recipe.serving_flags(recipe.ports.api),
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",  # the default one refuses a loopback address
        f"--client-ca-file={pki / 'ca.crt'}",
        # No proxy speaks for users here; without these, the other components log an error every few
        # seconds.
        f"--requestheader-client-ca-file={pki / 'front-proxy-ca.crt'}",
        "--requestheader-allowed-names=front-proxy-client",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--authorization-mode=RBAC",
        "--allow-privileged",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={pki / 'service-account.key'}",
        f"--service-account-signing-key-file={pki / 'service-account.key'}",
        f"--service-cluster-ip-range={SERVICE_RANGE}",
        "--profiling=false",
        *audit_flags(recipe),
    )
    return Component("kube-apiserver", command, recipe.serving_probe(recipe.ports.api, "/readyz"))


AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, verbs: [get, list, watch]}
  - {level: Metadata}
"""


def audit_flags(recipe: Recipe) -> tuple[str, ...]:
    """Return the flags of the audit log, if there is to be one; its policy is a file by then."""
    if not recipe.audit:
        return ()
    return (
        f"--audit-policy-file={recipe.paths.audit_policy}",
        f"--audit-log-path={recipe.paths.audit_log}",
        "--audit-log-mode=blocking",
    )


def controller_manager(recipe: Recipe) -> Component:
    """Return the controllers; they also make ServiceAccounts and remove not-ready taints."""
    name, pki = "kube-controller-manager", recipe.paths.pki
    command = (
        str(recipe.binaries[name]),
        *recipe.client_flags(name),
        *recipe.serving_flags(recipe.ports.controllers),
        f"--root-ca-file={pki / 'ca.crt'}",
        f"--service-account-private-key-file={pki / 'service-account.key'}",
        # RBAC grants each controller its own rights, not all to one user
        "--use-service-account-credentials",
        # there is one; without the election it survives a restart of the API server
        "--leader-elect=false",
        # Nothing routes to Services here, and of addresses on loopback these controllers only
        # complain, in Events.
        "--controllers=*,-endpoints-controller,-endpointslice-controller,-endpointslice-mirroring-controller",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    )
    # Until this account exists, every pod in the namespace is refused.
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    made = HttpProbe(recipe.ports.api, account, pki / "ca.crt", pki / ADMIN)
    serves = recipe.serving_probe(recipe.ports.controllers)
    return Component(name, command, AllProbe((serves, made)))


def stock_scheduler(recipe: Recipe) -> Component:
    """Return the cluster's own scheduler, with its defaults."""
    name = "kube-scheduler"
    command = (
        str(recipe.binaries[name]),
        *recipe.client_flags(name),
        *recipe.serving_flags(recipe.ports.scheduler),
        "--leader-elect=false",
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        "--profiling=false",
    )
    return Component(name, command, recipe.serving_probe(recipe.ports.scheduler))


def training_operator(recipe: Recipe) -> Component:
    """Return the operator, for the kinds of jobs whose CRDs are installed."""
    health, manifests = recipe.ports.operator_health, recipe.binaries.manifests
    kinds, has_webhook = bootstrap.served_kinds(manifests), webhook.is_in(manifests)
    command = (
        str(recipe.binaries[OPERATOR]),
        "--metrics-bind-address=127.0.0.1:0",
        f"--health-probe-bind-address=127.0.0.1:{health}",
        *(f"--enable-scheme={kind.name.lower()}" for kind in kinds),
        "--zap-log-level=info",
        # Its init container waits for a name of DNS; process nodes have none.
        "--pytorch-init-container-template-file=/dev/null",
        *([f"--webhook-server-port={recipe.ports.webhook}"] if has_webhook else []),
    )
    environ = {"KUBECONFIG": str(recipe.paths.kubeconfig_of(OPERATOR))}
    probes = [HttpProbe(health, "/readyz")]
    if has_webhook:
        environ["TMPDIR"] = str(recipe.paths.pki)  # below it is its certificate
        # It calls itself ready once it listens, and registers the webhook of each kind after that.
        # Until then the API server refuses every write of that kind.
        paths = webhook.paths(manifests, [kind.plural for kind in kinds])
        probes += [HttpProbe(recipe.ports.webhook, path, unverified=True) for path in paths]
    return Component(OPERATOR, command, AllProbe(tuple(probes)), environ)


def node_agent(paths: ClusterPaths) -> Component:
    """Return the agent of all process nodes."""
    command = (sys.executable, "-m", "localcluster.node", "--config", str(agent_config_path(paths)))
    return Component(
        AGENT,
        command,
        LogLineProbe(paths.log(AGENT), "ready"),
        PYTHON_ENVIRON,
        REPOSITORY,
        grace_seconds=20.0,
        death_signal=signal.SIGTERM,  # so that it can end its containers
    )


def agent_config_path(paths: ClusterPaths) -> Path:
    """Return where the agent's configuration lies."""
    return paths.root / "node-agent.json"


def agent_config(
    paths: ClusterPaths, nodes: Sequence[NodeSpec], settings: Mapping[str, object]
) -> str:
    """Return the agent's configuration as JSON: `settings`, such as `images`, and the nodes."""
    body = {
        **settings,
        "kubeconfig": str(paths.kubeconfig_of(AGENT)),
        "state_dir": str(paths.data / AGENT),
        "nodes": msgspec.to_builtins(list(nodes)),
    }
    return json.dumps(body, indent=1)
