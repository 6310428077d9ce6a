"""The connection to the API server: identity, keep-alive and a time-out on every call.

The client library's own defaults wait for ever and retry in silence; here every call has time-outs,
nothing is retried below the caller, and every failure is a ``KubeError`` that says what a caller
can do about it."""

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import quote, urlencode

import msgspec
import urllib3
import yaml

from optimus.kube.errors import ErrorKind, KubeError, NotLeading, classify, from_answer
from optimus.kube.server_clock import ServerClock
from optimus.kube.write_guard import Guard, guard_writes

if TYPE_CHECKING:  # half a second of imports: a person's commands do without it
    from kubernetes import client as api

CONNECT_SECONDS: Final = 5.0
READ_SECONDS: Final = 15.0
"""Small answers take milliseconds: a server this slow is down, and the caller tries again."""

GUARDED_SECONDS: Final = 5.0
"""A write that depends on a Lease is given up sooner: before another instance may lead."""

JSON: Final = "application/json"
MERGE_PATCH: Final = "application/merge-patch+json"
SERVICE_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The folder of a pod's token and of the API server's certificate authority."""

_CONNECTIONS: Final = 32


_FAILURES: Final = (urllib3.exceptions.HTTPError, OSError, ValueError, NotLeading)
"""``ValueError`` is for requests that urllib3 does not send."""

Query = Sequence[tuple[str, str]]


class Access(NamedTuple):
    """The address of the API server, and as whom it is asked."""

    address: str
    pool: urllib3.PoolManager
    headers: Callable[[], urllib3.HTTPHeaderDict]
    """The headers of every request; the token may change."""
    library: "Callable[[], api.ApiClient]"


class TokenFile:
    """A bearer token in a file that the kubelet replaces; read again for each request."""

    def __init__(self, path: Path) -> None:
        self._path, self._token = path, ""

    def token(self) -> str:
        """The current token; the last one known while the file cannot be read."""
        with suppress(OSError, UnicodeError):
            # An empty file is one that is being written.
            self._token = self._path.read_text().strip() or self._token
        return self._token

    def refresh(self, configuration: "api.Configuration") -> None:
        """The client library's hook before each request."""
        configuration.api_key["BearerToken"] = f"Bearer {self.token()}"


class Client:
    """Calls on one API server; safe to use from several threads."""

    def __init__(
        self,
        access: Access,
        read_seconds: float = READ_SECONDS,
        guard: Guard | None = None,
        connect_seconds: float = CONNECT_SECONDS,
    ) -> None:
        self.access = access
        self._read_seconds = read_seconds
        if guard is not None:
            guard_writes(access.pool, guard)
        self._connect_seconds = connect_seconds
        self._write_seconds = min(read_seconds, GUARDED_SECONDS if guard is not None else math.inf)
        self.server_clock = ServerClock()
        """Kept by every list and watch."""

    def patch(self, what: str, path: str, body: object, content_type: str = MERGE_PATCH) -> bytes:
        """Change an object; returns the answer's raw body. See ``send``."""
        return self.send(what, "PATCH", path, body, content_type)

    def post(self, what: str, path: str, body: object) -> bytes:
        """Create an object; returns the answer's raw body. See ``send``."""
        return self.send(what, "POST", path, body)

    def send(
        self, what: str, method: str, path: str, body: object, content_type: str = JSON
    ) -> bytes:
        """A write with a body that is encoded as JSON; returns the answer's raw body.

        ``what`` says what is tried, for the error's sentence ("patch tfjob ns/name").

        Raises:
            KubeError: the server did not do it, or did not answer.
        """
        seconds = self._connect_seconds, self._write_seconds
        headers = {"Content-Type": content_type}
        try:
            content = msgspec.json.encode(body)
            response = self._request(method, path, seconds, body=content, headers=headers)
        except _FAILURES as error:
            raise classify(what, error) from error
        if not 200 <= response.status <= 299:
            raise from_answer(what, response.status, response.data, response.headers)
        return response.data

    def _request(
        self,
        method: str,
        path: str,
        seconds: tuple[float, float],
        *,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> urllib3.BaseHTTPResponse:
        """One request as whoever this process is; ``seconds``: to connect, and without a byte."""
        return self.access.pool.urlopen(
            method,
            f"{self.access.address}{path}",
            headers=self.access.headers() | {"Accept": JSON, **(headers or {})},
            timeout=urllib3.Timeout(connect=seconds[0], read=seconds[1]),
            retries=False,
            redirect=False,
            **options,
        )

    def get(
        self,
        what: str,
        path: str,
        query: Query = (),
        read_seconds: float | None = None,
        most_bytes: int | None = None,
    ) -> bytes:
        """The raw body of a GET, for lists that are decoded without the library's models.

        ``read_seconds`` is how long the server may be silent, where that is not as long as usual.
        No more than ``most_bytes`` and one are read.

        Raises:
            KubeError: the server did not answer with 200, or with more than ``most_bytes``.
        """
        with self.stream(what, path, query, read_seconds or self._read_seconds) as response:
            try:
                body = response.read(None if most_bytes is None else most_bytes + 1)
            except _FAILURES as error:
                raise classify(what, error) from error
        if most_bytes is not None and len(body) > most_bytes:
            raise KubeError(ErrorKind.INVALID, f"cannot {what}: more than {most_bytes} bytes")
        return body

    @contextmanager
    def stream(
        self, what: str, path: str, query: Query, read_seconds: float
    ) -> Iterator[urllib3.BaseHTTPResponse]:
        """A GET whose body is read as it arrives; ``read_seconds`` without a byte end it.

        Raises:
            KubeError: the server did not answer with 200.
        """
        try:
            response = self._open(path, query, read_seconds)
        except _FAILURES as error:
            raise classify(what, error) from error
        try:
            if response.status != 200:
                raise from_answer(what, response.status, _error_body(response), response.headers)
            yield response
        finally:
            # A body that was read whole has given its connection back; any other ends with it.
            response.close()
            response.release_conn()

    def _open(self, path: str, query: Query, read_seconds: float) -> urllib3.BaseHTTPResponse:
        asked = f"{path}?{urlencode(query)}" if query else path
        response = self._request(
            "GET", asked, (self._connect_seconds, read_seconds), preload_content=False
        )
        self.server_clock.observe(response.headers.get("Date"))
        return response

    def close(self) -> None:
        """Close every idle connection."""
        self.access.pool.clear()


def connect(
    kubeconfig: Path | None = None,
    *,
    user_agent: str,
    read_seconds: float = READ_SECONDS,
    connect_seconds: float = CONNECT_SECONDS,
    service_account: Path = SERVICE_ACCOUNT,
    guard: Guard | None = None,
) -> Client:
    """A client from a kubeconfig file, else the pod's ServiceAccount, else the user's kubeconfig.

    ``read_seconds`` without a byte of an answer end every call but a watch, which has its own time.
    ``guard`` is asked before each part of a write is sent; writes then end after 5 s.

    Raises:
        KubeError: no usable configuration; the sentence says where it was looked for.
    """
    access = library_access(kubeconfig, None, user_agent, service_account)
    return Client(access, read_seconds, guard, connect_seconds)


def is_pod(kubeconfig: Path | None, context: str | None) -> bool:
    """The ServiceAccount of the pod that this runs in is used."""
    return not (kubeconfig or context) and "KUBERNETES_SERVICE_HOST" in os.environ


def path_of_user(kubeconfig: Path | None) -> Path:
    """The kubeconfig; several joined by colons are no file."""
    usual = os.environ.get("KUBECONFIG") or Path.home() / ".kube" / "config"
    return kubeconfig or Path(usual)


def library_access(
    kubeconfig: Path | None,
    context: str | None,
    user_agent: str,
    service_account: Path = SERVICE_ACCOUNT,
) -> Access:
    """The access by a configuration that the client library reads, with the plugins that it
    names."""
    from kubernetes import client as api
    from kubernetes.config import ConfigException

    if kubeconfig is not None and not kubeconfig.is_file():
        raise KubeError(ErrorKind.INVALID, f"there is no kubeconfig file {kubeconfig}")
    configuration = api.Configuration()
    configuration.keep_alive = True
    configuration.connection_pool_maxsize = _CONNECTIONS
    configuration.retries = False
    user: Mapping[str, Any] = {}
    try:
        if is_pod(kubeconfig, context):
            token_file: Path | None = _configure_pod(configuration, service_account)
        else:
            path = path_of_user(kubeconfig)
            user = _configure_user(configuration, path, context)
            token_file = _token_file(path, user)
        acting_as = impersonation(user)
    except (
        ConfigException,
        OSError,
        yaml.YAMLError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:
        looked = kubeconfig or "the pod's ServiceAccount or the user's kubeconfig"
        raise KubeError(
            ErrorKind.INVALID, f"no usable cluster configuration in {looked}: {error}"
        ) from error
    if token_file is not None:
        tokens = TokenFile(token_file)
        tokens.refresh(configuration)
        # Set by name: the library declares the attribute as None alone.
        vars(configuration).update(refresh_api_key_hook=tokens.refresh)
    library = api.ApiClient(configuration)
    library.user_agent = user_agent

    def headers() -> urllib3.HTTPHeaderDict:
        """The headers with the token as it is now."""
        token = configuration.get_api_key_with_prefix("BearerToken", "authorization")
        known = {} if token is None else {"authorization": token}
        return acting_as | library.default_headers | known

    pool = library.rest_client.pool_manager
    return Access(configuration.host, pool, headers, lambda: library)


def impersonation(user: Mapping[str, Any]) -> urllib3.HTTPHeaderDict:
    """The headers by which a kubeconfig's user acts as another one; one for each group."""
    headers = urllib3.HTTPHeaderDict()
    for name, key in (("User", "as"), ("Uid", "as-uid")):
        if value := user.get(key):
            headers.add(f"Impersonate-{name}", str(value))
    for group in user.get("as-groups") or ():
        headers.add("Impersonate-Group", str(group))
    for key, values in (user.get("as-user-extra") or {}).items():
        for value in values:
            headers.add(f"Impersonate-Extra-{quote(key, safe='')}", str(value))
    return headers


def _configure_pod(configuration: "api.Configuration", service_account: Path) -> Path:
    from kubernetes.config.incluster_config import InClusterConfigLoader

    token, authority = service_account / "token", service_account / "ca.crt"
    load: Callable[..., Any] = InClusterConfigLoader
    load(str(token), str(authority), try_refresh_token=False).load_and_set(configuration)
    return token


def _configure_user(
    configuration: "api.Configuration", path: Path, context: str | None
) -> Mapping[str, Any]:
    """Fill in the configuration; returns the entry of the user, of which the library ignores a
    part."""
    from kubernetes import config
    from kubernetes.config.kube_config import KubeConfigMerger

    load: Callable[..., None] = config.load_kube_config
    load(str(path), context=context, client_configuration=configuration, persist_config=False)
    merge: Callable[..., Any] = KubeConfigMerger
    document = merge(str(path)).config.value
    contexts = {each["name"]: each.value["context"] for each in document["contexts"]}
    users = {each["name"]: each.value["user"] for each in document["users"]}
    named = contexts[context or document["current-context"]].get("user")
    return users.get(named) or {}


def _token_file(kubeconfig: Path, user: Mapping[str, Any]) -> Path | None:
    # The library reads a tokenFile once; tokens of ServiceAccounts are replaced every hour. Several
    # files in KUBECONFIG are a person's, who has none that is replaced behind the program's back.
    named = user.get("tokenFile") if kubeconfig.is_file() else None
    return kubeconfig.parent / named if named else None


def _error_body(response: urllib3.BaseHTTPResponse) -> bytes:
    try:
        return response.read(65536)
    except _FAILURES:
        return b""


def path_of(group: str, version: str, plural: str, namespace: str | None = None) -> str:
    """The path of a collection; the core group is ""; without a namespace that of every
    namespace.

    Raises:
        KubeError: as ``path_segment``."""
    root = ("apis", group, version) if group else ("api", version)
    below = ("namespaces", namespace, plural) if namespace else (plural,)
    return "".join(f"/{path_segment(part)}" for part in (*root, *below))


def path_segment(name: str) -> str:
    """A name as a part of a path, which it must not leave: clients and proxies resolve ``..``.

    Raises:
        KubeError: no object can have this name."""
    if name in ("", ".", "..") or "/" in name or "%" in name:
        raise KubeError(ErrorKind.INVALID, f"{name[:64]!a} cannot be the name of an object")
    return quote(name, safe="")
