"""A local cluster for tests and the demo: a context manager around a supervisor and a kubeconfig.

    with LocalCluster("demo", nodes=numbered_nodes(2, {"cpu": "4"})) as cluster:
        print(cluster.kubectl("get", "nodes"))

The cluster ends with the `with` block, with the process, or with Ctrl-C, whichever comes first."""

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from localcluster import client
from localcluster.binaries.locate import Binaries, resolve
from localcluster.binaries.modules import DEFAULT_OPERATOR, refuse_other_operator
from localcluster.components import AGENT
from localcluster.embedded import manifests
from localcluster.errors import ClusterError, KubectlError
from localcluster.images import default_images
from localcluster.paths import ClusterPaths
from localcluster.processes import ProcessId, base_environ, send, signals_deferred, wait_for
from localcluster.progress import PlainProgress, Progress
from localcluster.specs import Backend, NodeSpec
from localcluster.supervisor import control
from localcluster.supervisor.status import ClusterStatus, ComponentStatus, read_status

_READY_SECONDS = 180.0
_KUBECTL_SECONDS = 240.0
_SHOWN_EVENTS = 40


class LocalCluster:
    """One control plane on loopback, with process nodes: a real one, or with `backend` the embedded
    one.

    `nodes` may be empty: then no node agent runs. `state_dir` is kept (logs, events) after the end;
    without one, everything lies in a temporary folder that goes. `training_operator` is the version
    of a real one (see `localcluster.binaries.modules`), `kubernetes` its release. `images` maps
    image names of examples to their virtual environments (or to the sentence why there is none);
    `agent` holds further fields of the node agent's configuration. With `audit` a real API server
    logs requests that are no reads to `paths.audit_log`; `flags` are further ones of the real
    components, by name. Set `progress` before the start to hear of it in another way than by lines
    on stderr."""

    def __init__(  # noqa: PLR0913 - the last eight are options, by keyword only
        self,
        name: str,
        nodes: Sequence[NodeSpec] = (),
        *,
        state_dir: Path | None = None,
        images: Mapping[str, Path | str] | None = None,
        agent: Mapping[str, Any] | None = None,
        backend: Backend = Backend.REAL,
        audit: bool = False,
        flags: Mapping[str, Sequence[str]] | None = None,
        training_operator: str = DEFAULT_OPERATOR,
        kubernetes: str | None = None,
    ) -> None:
        self.name = name
        self.nodes = tuple(nodes)
        self._state_dir = state_dir
        self._images = images
        self._agent = dict(agent or {})
        self.backend = Backend(backend)
        self._audit, self._flags = audit, dict(flags or {})
        self.training_operator, self._kubernetes = training_operator, kubernetes
        if self.backend is Backend.EMBEDDED:
            refuse_other_operator(training_operator)
        self.progress: Progress = PlainProgress()
        self._paths: ClusterPaths | None = None
        self._binaries: Binaries | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._owner_end: int | None = None

    def __enter__(self) -> Self:
        """Start it and wait until every component is ready. Raises BuildError or ClusterError."""
        self.start(owned=True)
        return self

    def start(self, *, owned: bool) -> None:
        """Start it as entering the context does; unless `owned`, it outlives this process."""
        if self.backend is Backend.REAL:
            self._binaries = resolve(
                self.progress, operator=self.training_operator, kubernetes=self._kubernetes
            )
        try:
            with self.progress.step(f"starting the cluster {self.name!r}"):
                paths, process = self._launch(owned=owned)
                control.wait_running(paths, process, _READY_SECONDS)
        except BaseException:
            self.close()
            raise

    def _launch(self, *, owned: bool) -> "tuple[ClusterPaths, subprocess.Popen[bytes]]":
        with signals_deferred():
            root = self._state_dir or Path(tempfile.mkdtemp(prefix=f"localcluster-{self.name}-"))
            self._paths = ClusterPaths(root.resolve())
            self._process, self._owner_end = control.launch(self._paths, self._plan(), owned=owned)
            return self._paths, self._process

    def __exit__(self, *exc: object) -> None:
        """Stop it in order; nothing of it is left."""
        self.close()

    def close(self) -> None:
        """Stop it in order, as leaving the context does; more than once does no harm."""
        with signals_deferred():
            self._close()

    def _close(self) -> None:
        if self._owner_end is not None:
            os.close(self._owner_end)  # the supervisor reads this as: your owner is gone
            self._owner_end = None
        elif self._process is not None:
            self._process.terminate()
        try:
            if self._process is not None:
                self._end_supervisor(self._process)
                self._process = None
        finally:
            if self._state_dir is None and self._paths is not None:
                shutil.rmtree(self._paths.root, ignore_errors=True)

    def _end_supervisor(self, process: "subprocess.Popen[bytes]") -> None:
        status = read_status(self.paths)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        control.stop(self.paths, status.supervisor if status else None)

    def _plan(self) -> control.ClusterSpec:
        kube = None if self._binaries is None else self._binaries["kube-scheduler"].parent
        images = default_images(kube, self._images)
        agent = {"images": images.to_json(), **self._agent}
        return control.ClusterSpec(
            self.name,
            self.nodes,
            self._binaries,
            agent,
            ephemeral=self._state_dir is None,
            audit=self._audit,
            flags=self._flags,
        )

    @property
    def paths(self) -> ClusterPaths:
        """Where its files lie."""
        if self._paths is None:
            raise ClusterError(f"the cluster {self.name!r} was not started")
        return self._paths

    @property
    def binaries(self) -> Binaries:
        """The programs that it runs; the embedded back end has none (ClusterError)."""
        if self.backend is Backend.EMBEDDED:
            raise ClusterError(
                "the embedded back end has no programs; start the cluster with the real one"
            )
        if self._binaries is None:
            raise ClusterError(f"the cluster {self.name!r} was not started")
        return self._binaries

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.paths.kubeconfig

    @property
    def status(self) -> ClusterStatus:
        """What the supervisor last said."""
        status = read_status(self.paths)
        if status is None:
            raise ClusterError(f"the cluster {self.name!r} has no status")
        return status

    @property
    def components(self) -> Mapping[str, ComponentStatus]:
        """The components by name: etcd, kube-apiserver, ..., node-agent."""
        return self.status.components

    def kubectl(
        self, *args: str, stdin: str | None = None, timeout_seconds: float = _KUBECTL_SECONDS
    ) -> str:
        """Run kubectl as the administrator and return its output. Raises KubectlError.

        The embedded back end brings no kubectl: there it is one on PATH, if there is one."""
        command = [self._kubectl(), "--kubeconfig", str(self.kubeconfig), *args]
        # A home of its own keeps kubectl from reading the user's preferences and from sharing a
        # discovery cache.
        environ = {**base_environ(), "HOME": str(self.paths.root)}
        shown = f"kubectl {' '.join(args)}"
        try:
            done = subprocess.run(
                command,
                check=False,  # the status is looked at below, to say more
                input=stdin or "",
                env=environ,
                capture_output=True,
                text=True,
                timeout=timeout_seconds,
            )
        except subprocess.TimeoutExpired as error:
            raise KubectlError(f"`{shown}` did not end within {timeout_seconds:.0f} s") from error
        if done.returncode != 0:
            raise KubectlError(f"`{shown}` failed: {done.stderr.strip()}")
        return done.stdout

    def _kubectl(self) -> str:
        if self.backend is Backend.REAL:
            return str(self.binaries["kubectl"])
        found = shutil.which("kubectl")
        if found is None:
            raise KubectlError(
                "there is no kubectl on PATH, and the embedded back end needs none and brings none"
            )
        return found

    def get(self, *args: str) -> dict[str, Any]:
        """Run `kubectl get ... -o json` and return the object."""
        body: dict[str, Any] = json.loads(self.kubectl("get", *args, "-o", "json"))
        return body

    def apply(self, path: Path) -> str:
        """Apply a file, a folder of files, or a folder with a kustomization, server-side.

        On the embedded back end no kubectl is needed, and of kustomize only what this project uses
        is known."""
        if self.backend is Backend.EMBEDDED:
            return manifests.apply(self.kubeconfig, path)
        kustomized = any(
            (path / name).exists() for name in ("kustomization.yaml", "kustomization.yml")
        )
        return self.kubectl("apply", "--server-side", "-k" if kustomized else "-f", str(path))

    def api_client(self) -> client.TimedApiClient:
        """Return a client of the `kubernetes` package, as the administrator."""
        return client.api_client(self.kubeconfig)

    def kill(self, component: str) -> ProcessId:
        """Kill a component with SIGKILL and return its process; it is started again."""
        process = self._component(component).process
        if process is None or not send(process, signal.SIGKILL):
            raise ClusterError(f"{component} does not run now")
        return process

    def wait_restarted(
        self, component: str, previous: ProcessId, timeout_seconds: float = 180.0
    ) -> None:
        """Wait until a component is ready in another process. Raises ClusterError."""

        def restarted() -> bool:
            current = self._component(component)
            return current.ready and current.process != previous

        if not wait_for(restarted, timeout_seconds):
            raise ClusterError(f"{component} was not ready again after {timeout_seconds:.0f} s")

    def diagnose(self, lines: int = 12) -> str:
        """Return the supervisor's last events and the last lines of every other log."""
        events = control.tail(self.paths.log("supervisor"), _SHOWN_EVENTS)
        logs = sorted(self.paths.logs.glob("*.log"))
        parts = [f"--- {log.name}\n{control.tail(log, lines)}" for log in logs]
        return "\n".join(["--- events", events, *parts])

    def _component(self, name: str) -> ComponentStatus:
        try:
            return self.components[name]
        except KeyError:
            known = ", ".join(sorted(self.components))
            hint = f"; {AGENT} runs only with nodes" if name == AGENT else ""
            raise ClusterError(f"there is no component {name!r}; there are {known}{hint}") from None
