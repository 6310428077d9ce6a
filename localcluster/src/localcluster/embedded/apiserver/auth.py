"""Authentication: every caller shows the administrator's token, which pods are given, too.

Pods are processes of the user who started the cluster, so whoever may make a pod may run anything
as that user: other users of the machine must not be let in. Every authenticated caller may do
everything."""

import base64
import hmac
from datetime import datetime, timedelta
from typing import Final

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.metadata import timestamp

ADMINISTRATOR: Final = "admin"
_DEFAULT_SECONDS: Final = 3600


class Authenticator:
    """Checks bearer tokens, and the administrator's name and token; without a secret admits all."""

    def __init__(self, secret: bytes = b"") -> None:
        """Take `secret`, the administrator's token."""
        basic = base64.b64encode(ADMINISTRATOR.encode() + b":" + secret)
        self._secret, self._admitted = secret, (b"Bearer " + secret, b"Basic " + basic)

    def admits(self, authorization: bytes) -> bool:
        """Tell whether a caller with this `Authorization` header is admitted."""
        shown = (hmac.compare_digest(authorization, each) for each in self._admitted)
        return not self._secret or any(shown)

    def token_for(self, account: Json, request: Json, now: datetime) -> Json:
        """Return a TokenRequest of a ServiceAccount with its token."""
        spec = request.get("spec") or {}
        seconds = int(spec.get("expirationSeconds") or _DEFAULT_SECONDS)
        expires = timestamp(now + timedelta(seconds=seconds))
        place = {key: account["metadata"][key] for key in ("name", "namespace", "uid")}
        return {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {**place, "creationTimestamp": timestamp(now)},
            "spec": {"expirationSeconds": seconds},
            "status": {"token": self._secret.decode(), "expirationTimestamp": expires},
        }
