"""Leases: who may act, read and written with the resource version as the guard."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from optimus.kube.client import Client, path_of, path_segment
from optimus.kube.contract import KIND_ORDERS, POLICY_MEMORY
from optimus.kube.errors import ErrorKind, KubeError, Malformed
from optimus.kube.metadata import ApiObject, decoder_of
from optimus.kube.results import Refused, Written, answer_of, written
from optimus.kube.times import format_instant

LEASE_GROUP: Final = "coordination.k8s.io"
LEASE_VERSION: Final = "v1"
LEASE_API_VERSION: Final = f"{LEASE_GROUP}/{LEASE_VERSION}"

_MOST_REMEMBERED: Final = 128 * 1024
"""Characters of a policy's memory. The API server allows 256 kB of annotations."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as stored."""

    holder: str = ""
    """The identity that leads; empty: none."""

    duration_seconds: float = 0.0
    """It is valid for so long after its last change."""

    transitions: int | None = None
    version: str = ""
    """Its resource version."""

    uid: str = ""
    remembered: str = ""
    kind_orders: str = ""
    """The order of the kinds of nodes on which new jobs are to start, as text."""


class _LeaseSpec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None


def _lease(raw: ApiObject[_LeaseSpec, object]) -> Lease:
    spec, metadata = raw.spec or _LeaseSpec(), raw.metadata
    annotations = metadata.annotations or {}
    return Lease(
        spec.holder_identity or "",
        spec.lease_duration_seconds or 0,
        spec.lease_transitions,
        metadata.resource_version,
        metadata.uid,
        annotations.get(POLICY_MEMORY, ""),
        annotations.get(KIND_ORDERS, ""),
    )


_decode_lease = decoder_of(ApiObject[_LeaseSpec, object], "a Lease", _lease)


class LeaseStore:
    """One Lease on the API server."""

    def __init__(self, client: Client, lease: str) -> None:
        """``lease`` is NAMESPACE/NAME."""
        self._client = client
        self.namespace, self.name = lease.split("/")
        self._what = f"lease {lease}"
        self._collection = path_of(LEASE_GROUP, LEASE_VERSION, "leases", self.namespace)
        self._path = f"{self._collection}/{path_segment(self.name)}"

    def __str__(self) -> str:
        return self._what

    def read(self) -> Lease | Refused | None:
        """The Lease; ``None`` where there is none."""
        found = answer_of(self._read)
        is_missing = isinstance(found, Refused) and found.kind is ErrorKind.NOT_FOUND
        return None if is_missing else found

    def _read(self) -> Lease:
        body = self._client.get(f"read {self._what}", self._path)
        try:
            return _decode_lease(body)
        except Malformed as error:
            raise KubeError(ErrorKind.INVALID, f"cannot read {self._what}: {error}") from error

    def create(self, holder: str, duration_seconds: float, at: float) -> Written | Refused:
        """Create it for a holder; ``at`` is now, by the wall clock."""
        spec = {**_spec(holder, duration_seconds, at), **_acquired(0, at)}
        metadata = {"name": self.name, "namespace": self.namespace}
        body = {
            "apiVersion": LEASE_API_VERSION,
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }
        return written(lambda: self._client.post(f"create {self._what}", self._collection, body))

    def renew(
        self, version: str, holder: str, duration_seconds: float, at: float
    ) -> Written | Refused:
        """Renew or, with an empty holder, release it; CONFLICT where it is another version."""
        return self._patch("renew", version, _spec(holder, duration_seconds, at))

    def acquire(
        self, found: Lease, holder: str, duration_seconds: float, at: float
    ) -> Written | Refused:
        """Take it from the holder that was found."""
        transitions = (found.transitions or 0) + 1
        spec = {**_spec(holder, duration_seconds, at), **_acquired(transitions, at)}
        return self._patch("acquire", found.version, spec)

    def remembered(self) -> str | Refused:
        """Return what the policy remembers of the whole cluster; empty: nothing is stored."""
        found = self.read()
        return found if isinstance(found, Refused) else "" if found is None else found.remembered

    def remember(self, text: str) -> Written | Refused:
        """Store what the policy remembers, whatever version the Lease is of: the holder renews it
        every second. A text that is too long is not stored, and the policy begins anew after a
        restart."""
        return self._annotate(POLICY_MEMORY, text if len(text) <= _MOST_REMEMBERED else None)

    def order_kinds(self, text: str) -> Written | Refused:
        """Store on which kinds of nodes new jobs are to start; empty: nothing is known."""
        return self._annotate(KIND_ORDERS, text or None)

    def _annotate(self, name: str, text: str | None) -> Written | Refused:
        return self._send("annotate", {"metadata": {"annotations": {name: text}}})

    def _patch(self, verb: str, version: str, spec: dict[str, Any]) -> Written | Refused:
        return self._send(verb, {"metadata": {"resourceVersion": version}, "spec": spec})

    def _send(self, verb: str, body: dict[str, Any]) -> Written | Refused:
        return written(lambda: self._client.patch(f"{verb} {self._what}", self._path, body))


def _spec(holder: str, duration_seconds: float, at: float) -> dict[str, Any]:
    return {
        "holderIdentity": holder,
        "leaseDurationSeconds": max(round(duration_seconds), 1),
        "renewTime": format_instant(at),
    }


def _acquired(transitions: int, at: float) -> dict[str, Any]:
    return {"acquireTime": format_instant(at), "leaseTransitions": transitions}
