"""The embedded back end: its components as values, and the files that they need.

The components have the names of the real ones, so commands need not know which back end runs. All
share one identity, a token that is new at each start."""

import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from localcluster.components import AGENT, OPERATOR, PYTHON_ENVIRON, Component
from localcluster.embedded.apiserver.auth import ADMINISTRATOR
from localcluster.kubeconfig import write_kubeconfig, write_private
from localcluster.paths import REPOSITORY, ClusterPaths
from localcluster.ports import pick_ports
from localcluster.readiness import HttpProbe, LogLineProbe
from localcluster.supervisor.runner import Stage

_HERE: Final = Path(__file__).parent
_KINDS: Final = ("tfjobs.yaml", "mxjobs.yaml", "pytorchjobs.yaml")
_SCHEDULER: Final = "kube-scheduler"
_COMPONENTS: Final = (_SCHEDULER, OPERATOR, AGENT)


def stages(paths: ClusterPaths, agent: Sequence[Component]) -> list[Stage]:
    """Write what the components read, and return them with the node agent, if there is one."""
    (port,) = pick_ports(1)
    paths.pki.mkdir(mode=0o700, parents=True, exist_ok=True)
    token = secrets.token_urlsafe(32)
    write_private(_token_file(paths), token.encode())
    # The token is also part of the address: kubectl sends a user's token only over TLS.
    server = f"http://{ADMINISTRATOR}:{token}@127.0.0.1:{port}"
    for path in (paths.kubeconfig, *(paths.kubeconfig_of(name) for name in _COMPONENTS)):
        write_kubeconfig(path, server, "", {"token": token})
    # All at once: the API server is ready long before the others have read their modules.
    return [Stage([api_server(paths, port), scheduler(paths), training_operator(paths), *agent])]


def api_server(paths: ClusterPaths, port: int) -> Component:
    """Return the API server with its controllers. It serves the operator's kinds from the start."""
    files = [word for name in _KINDS for word in ("--load", str(_HERE / "kinds" / name))]
    own = ("--port", str(port), "--token-file", str(_token_file(paths)))
    command = _python("localcluster.embedded.apiserver", *own, *files)
    return _component("kube-apiserver", command, HttpProbe(port, "/readyz"))


def scheduler(paths: ClusterPaths) -> Component:
    """Return the cluster's own scheduler, with its defaults."""
    kubeconfig = str(paths.kubeconfig_of(_SCHEDULER))
    command = _python("localcluster.embedded.scheduler", "--kubeconfig", kubeconfig)
    return _component(_SCHEDULER, command, LogLineProbe(paths.log(_SCHEDULER), "ready"))


def training_operator(paths: ClusterPaths) -> Component:
    """Return the operator of TFJobs, MXJobs and PyTorchJobs."""
    kubeconfig = str(paths.kubeconfig_of(OPERATOR))
    command = _python("localcluster.embedded.operator", "--kubeconfig", kubeconfig)
    return _component(OPERATOR, command, LogLineProbe(paths.log(OPERATOR), "ready"))


def _token_file(paths: ClusterPaths) -> Path:
    return paths.pki / "token"


def _python(module: str, *arguments: str) -> Sequence[str]:
    return (sys.executable, "-m", module, *arguments)


def _component(name: str, command: Sequence[str], probe: HttpProbe | LogLineProbe) -> Component:
    return Component(name, command, probe, PYTHON_ENVIRON, REPOSITORY)
