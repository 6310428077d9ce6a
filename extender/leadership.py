"""Whether the kube-scheduler beside this process leads, read from its Lease.

kube-scheduler's identity is the host name, an underscore and a random part. Where several replicas
run, only the leader's extender is asked, and only it may requeue pods.
"""

import logging
import threading
import time
from typing import Final

from optimus.kube.client import Client
from optimus.kube.leases import Lease, LeaseStore
from optimus.kube.results import Refused

_LOG = logging.getLogger(__name__)


HANDOVER_SECONDS: Final = 2.0
"""How long after another's lead its extender may still bind pods, with time to spare."""


class LeaseReader:
    """Reads the Lease at most every ``every_seconds``; while it cannot be read, the last holds."""

    def __init__(
        self,
        client: Client,
        lease: str,
        identity: str,
        every_seconds: float = 2.0,
        *,
        handover_seconds: float = 0.0,
    ) -> None:
        """``lease`` is NAMESPACE/NAME, ``identity`` what the holder must begin with. This one leads
        so many seconds after it is seen to, where another did before."""
        self._handover_seconds = handover_seconds
        self._other_led, self._waits_until = False, float("-inf")
        self._store, self._identity = LeaseStore(client, lease), identity
        self._every_seconds = every_seconds
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._leads = False
        self._holder: str | None = None
        self._transitions: int | None = None
        self._asked = False
        self.mismatch = False
        """Whether kube-scheduler asks this extender although the Lease names another host: only a
        kube-scheduler that leads asks, so the expected identity is wrong."""

    @property
    def holder(self) -> str:
        """The identity that held the Lease when it was last read; empty: it has no holder."""
        return self._holder or ""

    def leads(self) -> bool:
        """Return whether the holder is the kube-scheduler of this host."""
        with self._lock:
            if time.monotonic() - self._read_at >= self._every_seconds:
                self._leads = self._read()
                self._read_at = time.monotonic()
            return self._leads and time.monotonic() >= self._waits_until

    def called_as_follower(self) -> None:
        """kube-scheduler asks, so it leads: read the Lease in the next call of ``leads``."""
        with self._lock:
            self._read_at = float("-inf")
            self._asked = True

    def _read(self) -> bool:
        found = self._store.read()
        if isinstance(found, Refused):
            _LOG.warning("%s: %s", self._store, found)
            return self._leads
        lease = found or Lease()  # without a Lease no kube-scheduler leads yet
        holder = lease.holder
        leads = holder == self._identity or holder.startswith(f"{self._identity}_")
        if holder != self._holder:
            effect = "plans" if leads else "does not plan"
            _LOG.info("leader: kube-scheduler %s; this extender %s", holder or "(none)", effect)
            self.mismatch = False
        self._holder = holder
        if leads and self._other_led:
            self._waits_until = time.monotonic() + self._handover_seconds
        self._other_led = (bool(holder) or self._other_led) and not leads
        asked, self._asked = self._asked, False
        if asked and holder and not leads and not self.mismatch:
            self._say_mismatch(str(self._store), holder)
            self.mismatch = True
        return leads and not self._another_led_between(lease.transitions)

    def _another_led_between(self, transitions: int | None) -> bool:
        """Return whether another has led and ended since the Lease was read last as this one's.

        Then this one has led no more for a moment, and leads again from the next reading on."""
        last, self._transitions = self._transitions, transitions
        if last is None or transitions is None:
            return False
        led_between = self._leads and transitions - last > 1
        self._other_led |= led_between
        return led_between

    def _say_mismatch(self, lease: str, holder: str) -> None:
        _LOG.warning(
            "kube-scheduler asks this extender, but %s is held by %s, and the identity that is"
            " expected is %s or %s_...: nothing is planned. Set leader-identity to the part of"
            " the holder before the underscore",
            lease,
            holder,
            self._identity,
            self._identity,
        )


class OnlyReplica:
    """Leads always: without a Lease kube-scheduler runs once."""

    holder = ""
    mismatch = False

    def leads(self) -> bool:
        """True."""
        return True

    def called_as_follower(self) -> None:
        """There is nothing to read."""


def leadership(
    client: Client, lease: str, identity: str, *, waits: bool = False
) -> LeaseReader | OnlyReplica:
    """Return whether the kube-scheduler beside this process leads; ``lease`` is empty where it is
    the only one. ``waits``: until what the extender of another binds has ended."""
    if not lease:
        return OnlyReplica()
    return LeaseReader(client, lease, identity, handover_seconds=HANDOVER_SECONDS * waits)
