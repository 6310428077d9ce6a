"""Who may call: whoever shows the administrator's token, or a token of a ServiceAccount made here.

Pods are processes of the user who started the cluster, so that whoever may make a pod may run what
they like as that user: other users of the machine must not be let in. All who are let in may do
everything. A ServiceAccount's token has the form of a real one and is signed with the
administrator's, so that nothing needs to be remembered of it."""

import base64
import hmac
from datetime import datetime, timedelta
from typing import Final

import msgspec

from localcluster.embedded.apiserver.deletion import instant
from localcluster.embedded.apiserver.kinds import Json

ADMINISTRATOR: Final = "admin"
ISSUER: Final = "https://kubernetes.default.svc"
REVIEWS: Final = {
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews": "SelfSubjectAccessReview",
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": "SubjectAccessReview",
}
_DEFAULT_SECONDS: Final = 3600


class Gate:
    """Lets callers in by their bearer tokens, the administrator by name and token, too; without a
    secret everybody."""

    def __init__(self, secret: bytes = b"") -> None:
        """Take `secret`, the administrator's token, as what tokens are signed with."""
        self._secret = secret

    def admits(self, authorization: bytes, now: datetime) -> bool:
        """Tell whether a caller is let in with this `Authorization` header."""
        kind, _, token = authorization.partition(b" ")
        if not self._secret:
            return True
        if kind == b"Basic":
            return hmac.compare_digest(
                token, base64.b64encode(ADMINISTRATOR.encode() + b":" + self._secret)
            )
        if kind != b"Bearer":
            return False
        return hmac.compare_digest(token, self._secret) or self._is_ours(token, now)

    def token_for(self, account: Json, request: Json, now: datetime) -> Json:
        """Return a TokenRequest with its token."""
        metadata, spec = account["metadata"], request.get("spec") or {}
        seconds = int(spec.get("expirationSeconds") or _DEFAULT_SECONDS)
        audiences = spec.get("audiences") or [ISSUER]
        ends = now + timedelta(seconds=seconds)
        subject = f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}"
        token = self._signed(
            {"iss": ISSUER, "sub": subject, "aud": audiences, "exp": int(ends.timestamp())}
        )
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
            "status": {"token": token.decode(), "expirationTimestamp": instant(ends)},
        }

    def _signed(self, claims: Json) -> bytes:
        said = b".".join(
            _encoded(msgspec.json.encode(each)) for each in ({"alg": "HS256", "typ": "JWT"}, claims)
        )
        return said + b"." + self._signature(said)

    def _signature(self, said: bytes) -> bytes:
        return _encoded(hmac.digest(self._secret, said, "sha256"))

    def _is_ours(self, token: bytes, now: datetime) -> bool:
        said, _, signature = token.rpartition(b".")
        if not hmac.compare_digest(signature, self._signature(said)):
            return False
        claims = said.partition(b".")[2]
        ends: int = msgspec.json.decode(
            base64.urlsafe_b64decode(claims + b"=" * (-len(claims) % 4))
        )["exp"]
        return now.timestamp() < ends


def review(kind: str, body: Json) -> Json:
    """Return a review's answer: yes."""
    spec = body.get("spec") or {}
    head = {"kind": kind, "apiVersion": "authorization.k8s.io/v1", "metadata": {}}
    return {**head, "spec": spec, "status": {"allowed": True}}


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
