"""Probes of one run of a container: exec, httpGet and tcpSocket, reported when a threshold is
crossed.

The startup probe comes first; readiness and liveness begin when it has succeeded. One thread per
probed run waits for the next probe that is due and ends with the run.
"""

import http.client
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from localcluster.node.containers import Launch
from localcluster.node.spec import ContainerPlan, Json, ProbePlan

ExecProbe = Callable[[list[str], float], str | None]


@dataclass(frozen=True)
class ProbeTarget:
    """How probes reach a container: its own JSON, its ports on this machine, and how to run a
    command in it."""

    container: Json
    local_port: Callable[[int], int]
    run: ExecProbe


@dataclass
class Threshold:
    """Counts results in a row and says when a probe's verdict changes; `verdict` is None before the
    first."""

    success: int
    failure: int
    verdict: bool | None = None
    _streak: int = 0
    _last: bool | None = None

    def count(self, *, healthy: bool) -> bool:
        """Take in one result; return whether the verdict has just been reached or turned."""
        self._streak = self._streak + 1 if healthy == self._last else 1
        self._last = healthy
        if self._streak < (self.success if healthy else self.failure) or self.verdict == healthy:
            return False
        self.verdict = healthy
        return True


@dataclass
class _Scheduled:
    name: str
    plan: ProbePlan
    due_seconds: float
    threshold: Threshold


class Prober(threading.Thread):
    """Probes one run until `stop`; calls `report(probe, healthy, message)` when a verdict
    changes."""

    def __init__(
        self, plan: ContainerPlan, target: ProbeTarget, report: Callable[[str, bool, str], None]
    ) -> None:
        """Probe the container as its plan says."""
        super().__init__(name=f"probes of {plan.name}", daemon=True)
        self._plan = plan
        self._target = target
        self._report = report
        self._ended = threading.Event()
        self._began = time.monotonic()

    def stop(self) -> None:
        """End probing; a probe that is under way is not reported."""
        self._ended.set()

    def run(self) -> None:
        """Probe for startup, then for readiness and liveness."""
        if self._plan.startup and not self._probe_until_started(self._plan.startup):
            return
        pending = [
            self._scheduled(name, plan)
            for name, plan in (
                ("readiness", self._plan.readiness),
                ("liveness", self._plan.liveness),
            )
            if plan is not None
        ]
        while pending:
            turn = min(pending, key=lambda each: each.due_seconds)
            if not self._probe(turn):
                return

    def _probe_until_started(self, plan: ProbePlan) -> bool:
        turn = self._scheduled("startup", plan)
        while self._probe(turn):
            if turn.threshold.verdict is not None:
                return turn.threshold.verdict
        return False

    def _scheduled(self, name: str, plan: ProbePlan) -> _Scheduled:
        due = max(self._began + plan.initial_delay_seconds, time.monotonic())
        return _Scheduled(
            name, plan, due, Threshold(plan.success_threshold, plan.failure_threshold)
        )

    def _probe(self, turn: _Scheduled) -> bool:
        """Wait until a probe is due and make it; return False when the run has ended meanwhile."""
        if self._ended.wait(max(0.0, turn.due_seconds - time.monotonic())):
            return False
        failure = check(turn.plan.handler, self._target, turn.plan.timeout_seconds)
        turn.due_seconds = time.monotonic() + turn.plan.period_seconds
        if self._ended.is_set():
            return False
        if turn.threshold.count(healthy=failure is None):
            self._report(turn.name, failure is None, failure or "")
        return True


def check(handler: Json, target: ProbeTarget, timeout_seconds: float) -> str | None:
    """Make one probe; return None when it succeeds, else a sentence."""
    try:
        if "exec" in handler:
            return target.run(list(handler["exec"].get("command") or ()), timeout_seconds)
        if "httpGet" in handler:
            return _http(handler["httpGet"], target, timeout_seconds)
        if "tcpSocket" in handler:
            return _tcp(handler["tcpSocket"], target, timeout_seconds)
    except ValueError as error:
        return str(error)
    return "the probe has no handler that process nodes know"


def _http(action: Json, target: ProbeTarget, timeout_seconds: float) -> str | None:
    host, port = action.get("host") or "127.0.0.1", _port(action["port"], target)
    path, scheme = action.get("path") or "/", action.get("scheme") or "HTTP"
    connection = (
        http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=_trusting_all())
        if scheme == "HTTPS"
        else http.client.HTTPConnection(host, port, timeout=timeout_seconds)
    )
    headers = {"User-Agent": "kube-probe/localcluster", "Accept": "*/*"}
    headers.update(
        (each["name"], each.get("value") or "") for each in action.get("httpHeaders") or ()
    )
    try:
        connection.request("GET", path, headers=headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"Get {scheme.lower()}://{host}:{port}{path}: {error or type(error).__name__}"
    finally:
        connection.close()
    return None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"


def _tcp(action: Json, target: ProbeTarget, timeout_seconds: float) -> str | None:
    host, port = action.get("host") or "127.0.0.1", _port(action["port"], target)
    try:
        socket.create_connection((host, port), timeout_seconds).close()
    except OSError as error:
        return f"dial tcp {host}:{port}: {error}"
    return None


def _port(wanted: int | str, target: ProbeTarget) -> int:
    """Return the local port that a probe means by a number or by a port's name."""
    if str(wanted).isdigit():
        return target.local_port(int(wanted))
    for each in target.container.get("ports") or ():
        if each.get("name") == wanted:
            return target.local_port(int(each["containerPort"]))
    raise ValueError(f'the probe names port "{wanted}", which the container does not declare')


def _trusting_all() -> ssl.SSLContext:
    """Return a context that checks no certificate: a kubelet's HTTPS probes do not either."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def run_command(launch: Launch, timeout_seconds: float) -> str | None:
    """Run a command in a group of its own; return None on exit code 0, else a sentence."""
    try:
        process = subprocess.Popen(
            launch.argv,
            executable=launch.program,
            env=dict(launch.env),
            cwd=launch.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        return f"the command cannot be started: {error}"
    return _outcome(process, timeout_seconds)


def _outcome(process: "subprocess.Popen[bytes]", timeout_seconds: float) -> str | None:
    try:
        output, _ = process.communicate(timeout=timeout_seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"command timed out after {timeout_seconds:g}s"
    if process.returncode == 0:
        return None
    return f"exit code {process.returncode}: {output.decode(errors='replace').strip()[:500]}"
