"""A thin client of the API server for the node agent: raw JSON in and out, a time-out on every
call.

It reads a kubeconfig (client certificate or token), keeps connections open and knows the errors
that matter to a node: not found, conflict, gone. The agent alone uses it, so it has what the agent
calls and nothing else."""

import base64
import json
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import urllib3
import yaml

_CONNECT_SECONDS = 3.0
_READ_SECONDS = 15.0
_CALLS_AT_A_TIME = 32
_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"


class ApiError(Exception):
    """The API server refused a call (`status` is the HTTP code) or could not be reached (`status`
    0)."""

    def __init__(self, status: int, message: str) -> None:
        """Keep the HTTP code and the server's sentence."""
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Credentials:
    """How to reach an API server: its address, whom to trust, and who the caller is."""

    server: str
    ca_pem: str
    context: ssl.SSLContext
    token: str | None

    @property
    def host(self) -> str:
        """The server's host name or address."""
        return urlsplit(self.server).hostname or ""

    @property
    def port(self) -> int:
        """The server's port."""
        return urlsplit(self.server).port or 443


def read_kubeconfig(path: Path) -> Credentials:
    """Read the current context of a kubeconfig. Raises ValueError with a sentence when it is
    incomplete."""
    config = yaml.safe_load(path.read_text())
    try:
        context = _entry(config, "contexts", config["current-context"])["context"]
        cluster = _entry(config, "clusters", context["cluster"])["cluster"]
        user = _entry(config, "users", context["user"])["user"]
        server = cluster["server"]
    except (KeyError, TypeError, StopIteration):
        raise ValueError(f"{path} has no complete current context") from None
    ca_pem = _content(cluster, "certificate-authority", path) or ""
    tls = ssl.create_default_context(cadata=ca_pem or None)
    # The API server signs its own certificate without the extensions that Python 3.13 began to ask
    # for.
    tls.verify_flags &= ~ssl.VERIFY_X509_STRICT
    _load_client_certificate(tls, user, path)
    token_file = user.get("tokenFile")
    token = user.get("token") or (
        (path.parent / token_file).read_text().strip() if token_file else None
    )
    return Credentials(server.rstrip("/"), ca_pem, tls, token)


class Api:
    """Calls on one API server. Thread-safe; every call raises ApiError when it does not succeed."""

    def __init__(self, credentials: Credentials) -> None:
        """Talk to the server that the credentials name."""
        self.credentials = credentials
        self._headers = {"Accept": "application/json", "User-Agent": "optimus-localcluster-node"}
        if credentials.token:
            self._headers["Authorization"] = f"Bearer {credentials.token}"
        # At most so many calls at a time; more of them wait for a connection instead of opening one
        # each.
        self._pool = urllib3.PoolManager(
            maxsize=_CALLS_AT_A_TIME, block=True, ssl_context=credentials.context, retries=False
        )

    def get(self, path: str) -> dict[str, Any]:
        """Read one object."""
        return self._call("GET", path)

    def create(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Create an object in the collection `path`."""
        return self._call("POST", path, body)

    def merge(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change an object by a JSON merge patch."""
        return self._call("PATCH", path, body, _MERGE_PATCH)

    def patch(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Change a built-in object by a strategic merge patch."""
        return self._call("PATCH", path, body, _STRATEGIC_PATCH)

    def delete(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """Delete an object with the options in `body`."""
        return self._call("DELETE", path, body)

    def watch(self, path: str, resource_version: str, seconds: int) -> Iterator[dict[str, Any]]:
        """Yield the events of a watch that the server ends after `seconds`."""
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        }
        response = self._send(
            "GET", f"{path}?{urlencode(query)}", None, "", seconds + _READ_SECONDS
        )
        try:
            buffer = b""
            for chunk in response.stream(65536):
                *lines, buffer = (buffer + chunk).split(b"\n")
                for line in lines:
                    yield json.loads(line)
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiError(0, f"the watch of {path} broke: {error}") from None
        finally:
            response.close()

    def _call(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        content: str = "application/json",
    ) -> dict[str, Any]:
        response = self._send(method, path, body, content, _READ_SECONDS)
        try:
            parsed = json.loads(response.read())
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise ApiError(
                0, f"{method} {path}: the answer was cut or is no JSON: {error}"
            ) from None
        finally:
            response.release_conn()
        return parsed if isinstance(parsed, dict) else {}

    def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        content: str,
        read_seconds: float,
    ) -> urllib3.BaseHTTPResponse:
        headers = {**self._headers, "Content-Type": content} if body is not None else self._headers
        try:
            response = self._pool.request(
                method,
                self.credentials.server + path,
                body=None if body is None else json.dumps(body).encode(),
                headers=headers,
                preload_content=False,
                timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=read_seconds),
            )
            if response.status >= 400:
                answer = response.read()
                response.release_conn()
                raise ApiError(
                    response.status, _sentence(answer) or f"{method} {path}: HTTP {response.status}"
                )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise ApiError(0, f"{method} {path}: {error}") from None
        return response


def pod_path(namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the API path of a pod, of its subresource, or of a namespace's pods."""
    return object_path("pods", namespace, name, subresource)


def object_path(plural: str, namespace: str, name: str = "", subresource: str = "") -> str:
    """Return the API path of a namespaced object of the core group."""
    parts = ["/api/v1/namespaces", quote(namespace), plural, quote(name), subresource]
    return "/".join(part for part in parts if part)


def _sentence(answer: bytes) -> str:
    try:
        parsed = json.loads(answer)
    except ValueError:
        return answer.decode(errors="replace").strip()
    return str(parsed.get("message") or "") if isinstance(parsed, dict) else ""


def _entry(config: Any, section: str, name: str) -> Any:
    return next(each for each in config[section] if each["name"] == name)


def _content(section: Mapping[str, Any], key: str, kubeconfig: Path) -> str | None:
    """Read a PEM that a kubeconfig holds inline or names as a file."""
    if section.get(f"{key}-data"):
        return base64.b64decode(section[f"{key}-data"]).decode()
    if section.get(key):
        return (kubeconfig.parent / str(section[key])).read_text()
    return None


def _load_client_certificate(
    tls: ssl.SSLContext, user: Mapping[str, Any], kubeconfig: Path
) -> None:
    certificate = _content(user, "client-certificate", kubeconfig)
    key = _content(user, "client-key", kubeconfig)
    if not certificate or not key:
        return
    # The ssl module reads certificates from files only; this one exists for the time of the call.
    descriptor, name = tempfile.mkstemp()
    try:
        with os.fdopen(descriptor, "w") as combined:
            combined.write(f"{certificate}\n{key}\n")
        tls.load_cert_chain(name)
    finally:
        Path(name).unlink()
