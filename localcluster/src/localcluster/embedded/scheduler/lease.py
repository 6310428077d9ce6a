"""Leader election by a Lease, as in kube-scheduler: who does not renew in time ends.

Another's Lease expires by when its last change was seen here, on this machine's own clock."""

import logging
import secrets
import socket
import threading
import time
from collections.abc import Callable

from localcluster.api_calls import ApiCalls
from localcluster.embedded.raw_objects import Json
from localcluster.embedded.scheduler.configuration import ElectionConfiguration
from optimus.kube.client import Client, path_of
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.times import format_instant

_LOG = logging.getLogger(__name__)


class Election(threading.Thread):
    """Acquires and renews the Lease; ``lost`` is called once when leadership is lost."""

    def __init__(
        self, client: Client, configuration: ElectionConfiguration, lost: Callable[[], None]
    ) -> None:
        super().__init__(name="election", daemon=True)
        self.identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
        self._api, self._configuration, self._lost = ApiCalls(client), configuration, lost
        self._stopping = threading.Event()
        self._leading = threading.Event()
        self._seen: tuple[str, float] = ("", 0.0)

    @property
    def leads(self) -> bool:
        """Whether this process may schedule."""
        return self._leading.is_set()

    def stop(self) -> None:
        """End, and let another take over at once, where this process led."""
        self._stopping.set()
        self.join(5)
        if self.leads:
            self._leading.clear()
            self._try(release=True)

    def run(self) -> None:
        """Try until it leads, then renew."""
        renewed, pause = time.monotonic(), 0.0
        while not self._stopping.wait(pause):
            pause = self._configuration.retry_seconds
            if self._try():
                renewed = time.monotonic()
                self._leading.set()
            elif self.leads and time.monotonic() - renewed > self._configuration.renew_seconds:
                self._leading.clear()
                self._lost()
                return

    def _try(self, *, release: bool = False) -> bool:
        try:
            return self._hold(release=release)
        except KubeError as error:
            if error.kind not in (ErrorKind.CONFLICT, ErrorKind.EXISTS):
                _LOG.warning("%s", error.sentence)
            return False

    def _hold(self, *, release: bool) -> bool:
        leases = path_of("coordination.k8s.io", "v1", "leases", self._configuration.namespace)
        path, metadata = f"{leases}/{self._configuration.name}", {"name": self._configuration.name}
        try:
            lease = self._api.get(path)
        except KubeError as error:
            if error.kind is not ErrorKind.NOT_FOUND:
                raise
            self._api.create(leases, {"metadata": metadata, "spec": self._spec({})})
            return True
        if not self._may_take(lease):
            return False
        ended = {"holderIdentity": "", "leaseDurationSeconds": 1} if release else {}
        spec = {**self._spec(lease.get("spec") or {}), **ended}
        self._api.replace(path, {**lease, "spec": spec})
        return True

    def _may_take(self, lease: Json) -> bool:
        version, spec = lease["metadata"]["resourceVersion"], lease.get("spec") or {}
        holder = spec.get("holderIdentity")
        if version != self._seen[0]:
            self._seen = (version, time.monotonic())
        if not holder or holder == self.identity:
            return True
        lasts = spec.get("leaseDurationSeconds") or self._configuration.lease_seconds
        return time.monotonic() - self._seen[1] > lasts

    def _spec(self, before: Json) -> Json:
        now = format_instant(time.time())
        mine = before.get("holderIdentity") == self.identity
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": int(self._configuration.lease_seconds),
            "acquireTime": before.get("acquireTime") if mine else now,
            "renewTime": now,
            "leaseTransitions": (before.get("leaseTransitions") or 0)
            + (0 if mine or not before else 1),
        }
