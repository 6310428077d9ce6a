"""Authentication: the administrator's token, or a token of a ServiceAccount that was issued here.

Pods are processes of the user who started the cluster, so whoever may make a pod may run anything
as that user: other users of the machine must not be let in. Every authenticated caller may do
everything. ServiceAccount tokens look like real ones and are signed with the administrator's."""

import base64
import hmac
from datetime import datetime, timedelta
from typing import Final

import msgspec

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.metadata import timestamp

ADMINISTRATOR: Final = "admin"
ISSUER: Final = "https://kubernetes.default.svc"
_DEFAULT_SECONDS: Final = 3600


class Authenticator:
    """Checks bearer tokens, and the administrator's name and token; without a secret admits all."""

    def __init__(self, secret: bytes = b"") -> None:
        """Take `secret`, the administrator's token, with which other tokens are signed."""
        self._secret = secret

    def admits(self, authorization: bytes, now: datetime) -> bool:
        """Tell whether a caller with this `Authorization` header is admitted."""
        kind, _, token = authorization.partition(b" ")
        if not self._secret:
            return True
        if kind == b"Basic":
            basic = base64.b64encode(ADMINISTRATOR.encode() + b":" + self._secret)
            return hmac.compare_digest(token, basic)
        if kind != b"Bearer":
            return False
        return hmac.compare_digest(token, self._secret) or self._is_issued(token, now)

    def token_for(self, account: Json, request: Json, now: datetime) -> Json:
        """Return a TokenRequest with its token."""
        metadata, spec = account["metadata"], request.get("spec") or {}
        seconds = int(spec.get("expirationSeconds") or _DEFAULT_SECONDS)
        audiences, ends = spec.get("audiences") or [ISSUER], now + timedelta(seconds=seconds)
        subject = f"system:serviceaccount:{metadata['namespace']}:{metadata['name']}"
        claims = {"iss": ISSUER, "sub": subject, "aud": audiences, "exp": int(ends.timestamp())}
        parts = (msgspec.json.encode(each) for each in ({"alg": "HS256", "typ": "JWT"}, claims))
        payload = b".".join(_encoded(each) for each in parts)
        token = payload + b"." + self._signature(payload)
        place = {key: metadata[key] for key in ("name", "namespace", "uid")}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {**place, "creationTimestamp": timestamp(now)},
            "spec": {"audiences": audiences, "expirationSeconds": seconds},
            "status": {"token": token.decode(), "expirationTimestamp": timestamp(ends)},
        }

    def _signature(self, payload: bytes) -> bytes:
        return _encoded(hmac.digest(self._secret, payload, "sha256"))

    def _is_issued(self, token: bytes, now: datetime) -> bool:
        payload, _, signature = token.rpartition(b".")
        if not hmac.compare_digest(signature, self._signature(payload)):
            return False
        claims = base64.urlsafe_b64decode(payload.partition(b".")[2] + b"==")
        return now.timestamp() < float(msgspec.json.decode(claims)["exp"])


def _encoded(data: bytes) -> bytes:
    return base64.urlsafe_b64encode(data).rstrip(b"=")
