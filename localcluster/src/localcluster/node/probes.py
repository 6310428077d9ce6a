"""HTTP probes of one run of a container, reported when a threshold is crossed.

The startup probe comes first; readiness and liveness begin when it has succeeded. One thread per
probed run waits for the next probe that is due and ends with the run."""

import http.client
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from localcluster.node.pod_spec import ContainerSpec, Json, ProbeSpec
from localcluster.readiness import unverified_context


@dataclass
class Threshold:
    """Counts results in a row; `verdict` changes when enough agree, and is None before that."""

    success: int
    failure: int
    verdict: bool | None = None
    _streak: int = 0
    _last: bool | None = None

    def count(self, *, healthy: bool) -> bool:
        """Take one result; return whether the verdict has just changed."""
        self._streak = self._streak + 1 if healthy == self._last else 1
        self._last = healthy
        if self._streak < (self.success if healthy else self.failure) or self.verdict == healthy:
            return False
        self.verdict = healthy
        return True


@dataclass
class _Scheduled:
    name: str
    spec: ProbeSpec
    due_seconds: float
    threshold: Threshold


class Prober(threading.Thread):
    """Probes one run until `stop`; calls `report(probe, healthy, message)` on a new verdict."""

    def __init__(
        self,
        spec: ContainerSpec,
        local_port: Callable[[int], int],
        report: Callable[[str, bool, str], None],
    ) -> None:
        super().__init__(name=f"probes of {spec.name}", daemon=True)
        self._spec = spec
        self._local_port = local_port
        self._report = report
        self._ended = threading.Event()
        self._began = time.monotonic()

    def stop(self) -> None:
        """End probing; a probe that is under way is not reported."""
        self._ended.set()

    def run(self) -> None:
        """Probe for startup, then for readiness and liveness."""
        if self._spec.startup and not self._probe_until_started(self._spec.startup):
            return
        kinds = (("readiness", self._spec.readiness), ("liveness", self._spec.liveness))
        pending = [self._scheduled(name, spec) for name, spec in kinds if spec is not None]
        while pending and self._probe(min(pending, key=lambda each: each.due_seconds)):
            pass

    def _probe_until_started(self, spec: ProbeSpec) -> bool:
        startup = self._scheduled("startup", spec)
        while self._probe(startup):
            if startup.threshold.verdict is not None:
                return startup.threshold.verdict
        return False

    def _scheduled(self, name: str, spec: ProbeSpec) -> _Scheduled:
        due = max(self._began + spec.initial_delay_seconds, time.monotonic())
        threshold = Threshold(spec.success_threshold, spec.failure_threshold)
        return _Scheduled(name, spec, due, threshold)

    def _probe(self, probe: _Scheduled) -> bool:
        """Wait until a probe is due and make it; return False when the run has ended meanwhile."""
        if self._ended.wait(max(0.0, probe.due_seconds - time.monotonic())):
            return False
        failure = check(probe.spec, self._spec.raw, self._local_port)
        probe.due_seconds = time.monotonic() + probe.spec.period_seconds
        if self._ended.is_set():
            return False
        if probe.threshold.count(healthy=failure is None):
            self._report(probe.name, failure is None, failure or "")
        return True


def check(probe: ProbeSpec, container: Json, local_port: Callable[[int], int]) -> str | None:
    """Make one probe; None when it succeeds, else a sentence."""
    action = probe.http_get
    declared = {each.get("name"): each["containerPort"] for each in container.get("ports") or ()}
    wanted = action["port"]
    number = wanted if str(wanted).isdigit() else declared.get(wanted)
    if number is None:
        return f'the probe names port "{wanted}", which the container does not declare'
    host, port = action.get("host") or "127.0.0.1", local_port(int(number))
    path, scheme = action.get("path") or "/", action.get("scheme") or "HTTP"
    connection = (
        http.client.HTTPSConnection(
            host, port, timeout=probe.timeout_seconds, context=unverified_context()
        )
        if scheme == "HTTPS"
        else http.client.HTTPConnection(host, port, timeout=probe.timeout_seconds)
    )
    headers = {"User-Agent": "kube-probe/localcluster", "Accept": "*/*"}
    for each in action.get("httpHeaders") or ():
        headers[each["name"]] = each.get("value") or ""
    try:
        connection.request("GET", path, headers=headers)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"Get {scheme.lower()}://{host}:{port}{path}: {error or type(error).__name__}"
    finally:
        connection.close()
    return None if 200 <= status < 400 else f"HTTP probe failed with statuscode: {status}"
