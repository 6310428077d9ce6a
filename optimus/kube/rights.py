"""The rights that the two ServiceAccounts and their users need, and whether they have them.

The API server itself is asked (SubjectAccessReview). A test compares the table with the RBAC
manifests."""

import json
import re
from collections.abc import Iterable
from typing import Final, NamedTuple, Protocol

import msgspec

from optimus.kube.contract import GROUP, PROFILES, WORKLOAD_PROFILES
from optimus.kube.errors import ErrorKind, KubeError, Malformed, decode
from optimus.kube.job_kinds import JOB_KINDS, OPERATOR_GROUP

_REVIEWS: Final = "/apis/authorization.k8s.io/v1"
_REFUSED: Final = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)"'
    r'(?: in API group "(?P<group>[^"]*)")?(?: in the namespace "(?P<namespace>[^"]*)")?'
)
"""What the API server says to somebody who lacks a right."""

MAY_NOT: Final = "you may not "


class Poster(Protocol):
    """The part of ``optimus.kube.client.Client`` that is needed; see there."""

    def post(self, what: str, path: str, body: bytes) -> bytes:
        """Create an object; the answer's body."""


class Right(NamedTuple):
    """One verb on one resource; ``namespace`` empty: everywhere."""

    verb: str
    group: str
    resource: str
    """With its subresource: ``pods/log``."""

    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        group = f".{self.group}" if self.group else ""
        resource, _, subresource = self.resource.partition("/")
        return f"{self.verb} {resource}{group}{subresource and f'/{subresource}'}{where}"


def _rights(verbs: str, group: str, resources: str, namespace: str = "") -> Iterable[Right]:
    return (
        Right(verb, group, resource, namespace)
        for resource in resources.split()
        for verb in verbs.split()
    )


def _of_jobs(verbs: str, namespace: str = "") -> Iterable[Right]:
    kinds = JOB_KINDS.values()
    return (right for kind in kinds for right in _rights(verbs, kind.group, kind.plural, namespace))


_RESIZED: Final = " ".join(kind.plural for kind in JOB_KINDS.values() if kind.is_resized)

AUTOSCALER_RIGHTS: Final = (
    *_of_jobs("get list watch"),
    *_rights("patch", OPERATOR_GROUP, _RESIZED),
    *_rights("get list watch", "", "pods nodes"),
    *_rights("get list watch create delete", GROUP, f"{PROFILES} {WORKLOAD_PROFILES}"),
    *_rights("get patch", GROUP, f"{PROFILES}/status {WORKLOAD_PROFILES}/status"),
    *_rights("list watch create patch", "", "events"),
    *_rights("list watch", "", "resourcequotas"),
    *_rights("list watch", "scheduling.k8s.io", "priorityclasses"),
)

NAMESPACED_RIGHTS: Final = {
    "optimus-autoscaler-logs": Right("get", "", "pods/log"),
    "optimus-autoscaler-completion": Right("patch", "", "pods/status"),
}
"""The autoscaler's rights by ClusterRole that may be bound in chosen namespaces alone."""

SCHEDULER_RIGHTS: Final = (
    *_rights("get list watch", "", "nodes pods"),
    *_rights("get list watch", "", "persistentvolumeclaims persistentvolumes namespaces"),
    *_rights("get list watch", "storage.k8s.io", "storageclasses"),
    *_rights("get list watch", "resource.k8s.io", "deviceclasses resourceslices"),
    *_rights("get list watch", "resource.k8s.io", "resourceclaims resourceclaimtemplates"),
    *_of_jobs("get list watch"),
    *_rights("get list watch", GROUP, PROFILES),
    # Of system:kube-scheduler:
    *_rights("create", "", "pods/binding"),
    *_rights("patch", "", "pods/status"),
    *_rights("create patch", "events.k8s.io", "events"),
)


def user_rights(namespace: str) -> tuple[Right, ...]:
    """What the commands need in a namespace; the last one only to pause and resume."""
    return (
        *_of_jobs("list", namespace),
        *_rights("list", GROUP, PROFILES, namespace),
        *_rights("list", "", "pods events", namespace),
        *_rights("patch", OPERATOR_GROUP, _RESIZED, namespace),
    )


def lease_rights(lease: str) -> tuple[Right, ...]:
    """What the holder of NAMESPACE/NAME needs."""
    read = right_to_read_lease(lease)
    return (read._replace(verb="create", name=""), read, read._replace(verb="update"))


def right_to_read_lease(lease: str) -> Right:
    """What the reader of NAMESPACE/NAME needs."""
    namespace, _, name = lease.partition("/")
    return Right("get", "coordination.k8s.io", "leases", namespace, name)


def refused_right(error: KubeError) -> Right | None:
    """The right that the API server says the user lacks; ``None`` for any other error."""
    match = _REFUSED.search(error.sentence) if error.kind is ErrorKind.FORBIDDEN else None
    if match is None:
        return None
    verb, resource, group, namespace = match.group("verb", "resource", "group", "namespace")
    return Right(verb, group or "", resource, namespace or "")


def explained(error: KubeError) -> str:
    """The error as a sentence to the user: ``you may not list pods in namespace ns``."""
    right = refused_right(error)
    if right is None:
        return error.sentence
    return f"{MAY_NOT}{right}{'' if right.namespace else ' at the cluster scope'}"


class _ReviewStatus(msgspec.Struct):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _ReviewStatus = msgspec.field(default_factory=_ReviewStatus)


_DECODER: Final = msgspec.json.Decoder(_Review)


def missing(client: Poster, rights: Iterable[Right], account: str = "") -> list[Right]:
    """The rights that the user lacks, or the ServiceAccount NAMESPACE/NAME.

    Raises:
        KubeError: the API server does not say."""
    return [right for right in rights if not _may(client, right, account)]


def _may(client: Poster, right: Right, account: str) -> bool:
    resource, _, subresource = right.resource.partition("/")
    attributes = {
        "verb": right.verb,
        "group": right.group,
        "resource": resource,
        "subresource": subresource,
        "namespace": right.namespace,
        "name": right.name,
    }
    kind, subject = "SelfSubjectAccessReview", {}
    if account:
        namespace, _, name = account.partition("/")
        kind = "SubjectAccessReview"
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}"]
        subject = {
            "user": f"system:serviceaccount:{namespace}:{name}",
            "groups": [*groups, "system:authenticated"],
        }
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": kind,
        "spec": {"resourceAttributes": attributes, **subject},
    }
    whose = f"ServiceAccount {account}" if account else "the user"
    what = f"ask whether {whose} may {right}"
    try:
        answer = client.post(what, f"{_REVIEWS}/{kind.lower()}s", json.dumps(body).encode())
    except KubeError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            said = "the API server answers no questions about rights"
            raise KubeError(ErrorKind.NOT_FOUND, said) from None
        raise
    try:
        return decode(_DECODER, answer, f"a {kind}").status.allowed
    except Malformed:
        return False
