"""Tokens of ServiceAccounts, and the reviews of what a caller may do: everybody may do everything here.

A token has the form of a real one, so that programs find its end of life and its subject in it; nobody checks it.
"""

import base64
from datetime import datetime, timedelta
from typing import Final

import msgspec

from localcluster.embedded.apiserver.deletion import instant
from localcluster.embedded.apiserver.kinds import Json

ISSUER: Final = "https://kubernetes.default.svc"
REVIEWS: Final = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": "SubjectAccessReview",
}
_DEFAULT_SECONDS: Final = 3600


def token_for(account: Json, request: Json, now: datetime) -> Json:
    """Return a TokenRequest with its token."""
    metadata, spec = account["metadata"], request.get("spec") or {}
    seconds = int(spec.get("expirationSeconds") or _DEFAULT_SECONDS)
    audiences = spec.get("audiences") or [ISSUER]
    ends = now + timedelta(seconds=seconds)
    subject = f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}"
    claims = {"iss": ISSUER, "sub": subject, "aud": audiences, "exp": int(ends.timestamp())}
    token = ".".join(_part(each) for each in ({"alg": "none"}, claims, {}))
    place = {key: metadata[key] for key in ("name", "namespace", "uid")}
    return {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {**place, "creationTimestamp": instant(now)},
        "spec": {
            "audiences": audiences,
            "expirationSeconds": seconds,
            "boundObjectRef": spec.get("boundObjectRef"),
        },
        "status": {"token": token, "expirationTimestamp": instant(ends)},
    }


def review(kind: str, body: Json) -> Json:
    """Return a review's answer: yes."""
    spec = body.get("spec") or {}
    head = {"kind": kind, "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    return {**head, "spec": spec, "status": {"allowed": True}}


def _part(claims: Json) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(claims)).decode().rstrip("=")
