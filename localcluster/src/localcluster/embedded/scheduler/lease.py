"""Leader election by a Lease, as in kube-scheduler: who does not renew in time ends.

Another's Lease expires by when its last change was seen here, on this machine's own clock."""

import secrets
import socket
import threading
import time
from collections.abc import Callable

from localcluster.embedded.scheduler.configuration import ElectionConfiguration
from optimus.kube.client import Client
from optimus.kube.leases import Lease, LeaseStore
from optimus.kube.results import Refused, Written


class Election(threading.Thread):
    """Acquires and renews the Lease; ``lost`` is called once when leadership is lost."""

    def __init__(
        self, client: Client, configuration: ElectionConfiguration, lost: Callable[[], None]
    ) -> None:
        super().__init__(name="election", daemon=True)
        self._identity = f"{socket.gethostname()}_{secrets.token_hex(8)}"
        self._store = LeaseStore(client, f"{configuration.namespace}/{configuration.name}")
        self._configuration, self._lost = configuration, lost
        self._stopping, self._leading = threading.Event(), threading.Event()
        self._seen: tuple[str, float] = ("", 0.0)

    @property
    def leads(self) -> bool:
        """Whether this process may schedule."""
        return self._leading.is_set()

    def stop(self) -> None:
        """End, and let another take over at once, where this process led."""
        self._stopping.set()
        self.join(5)
        lease = self._store.read()
        if self.leads and isinstance(lease, Lease) and lease.holder == self._identity:
            self._store.renew(lease.version, "", 1.0, time.time())
        self._leading.clear()

    def run(self) -> None:
        """Try until it leads, then renew."""
        renewed, pause = time.monotonic(), 0.0
        while not self._stopping.wait(pause):
            pause = self._configuration.retry_seconds
            if isinstance(self._hold(), Written):
                renewed = time.monotonic()
                self._leading.set()
            elif self.leads and time.monotonic() - renewed > self._configuration.renew_seconds:
                self._leading.clear()
                self._lost()
                return

    def _hold(self) -> Written | Refused | None:
        """Create, renew or take the Lease; None while it is another's."""
        found, terms = self._store.read(), (self._identity, self._configuration.lease_seconds)
        if isinstance(found, Refused):
            return found
        if found is None:
            return self._store.create(*terms, time.time())
        if found.version != self._seen[0]:
            self._seen = (found.version, time.monotonic())
        if found.holder == self._identity:
            return self._store.renew(found.version, *terms, time.time())
        lasts = found.duration_seconds or self._configuration.lease_seconds
        if found.holder and time.monotonic() - self._seen[1] <= lasts:
            return None
        return self._store.acquire(found, *terms, time.time())
