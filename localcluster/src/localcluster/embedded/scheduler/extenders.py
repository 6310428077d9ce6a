"""How kube-scheduler asks an extender over HTTP, and what it makes of the answers.

Keys are Go's field names. Only 200 is success; an answer without a list of nodes is an answer of no
node; a node that was not offered spoils the whole answer."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import urllib3

from localcluster.embedded.raw_objects import Json
from localcluster.embedded.scheduler.configuration import ExtenderConfiguration


class ExtenderFailed(Exception):
    """A call failed; ``str()`` is what kube-scheduler would say."""


@dataclass(frozen=True)
class Filtered:
    """The nodes that are left, and why others are not."""

    kept: Sequence[str]
    refused: Mapping[str, str] = field(default_factory=dict)


class HttpExtender:
    """One extender of the configuration."""

    def __init__(self, configuration: ExtenderConfiguration) -> None:
        self.configuration = configuration
        self._pool = urllib3.PoolManager(retries=False, timeout=configuration.timeout_seconds)

    def filter(self, pod: Json, nodes: Mapping[str, Json]) -> Filtered:
        """Ask which of the nodes the pod may go to. Raises ExtenderFailed."""
        if not self.configuration.filter_verb:
            return Filtered(tuple(nodes))
        answer = self._post(self.configuration.filter_verb, ask(pod, nodes))
        return read_filtered(answer, nodes, self.configuration)

    def prioritize(self, pod: Json, nodes: Mapping[str, Json]) -> dict[str, int]:
        """Ask for scores to add to the scheduler's own (0 to 100). Raises ExtenderFailed."""
        if not self.configuration.prioritize_verb:
            return {}
        answer = self._post(self.configuration.prioritize_verb, ask(pod, nodes))
        return read_scores(answer, self.configuration.weight)

    def _post(self, verb: str, body: Json) -> Any:
        url = f"{self.configuration.url}/{verb}"
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Go-http-client/1.1",
            "Accept-Encoding": "gzip",
        }
        text = json.dumps(body, separators=(",", ":")).encode()
        try:
            answer = self._pool.request("POST", url, body=text, headers=headers)
        except urllib3.exceptions.NewConnectionError as error:  # a TimeoutError to the library
            raise ExtenderFailed(f'Post "{url}": {_refused(url, error)}') from error
        except urllib3.exceptions.TimeoutError as error:
            why = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            raise ExtenderFailed(f'Post "{url}": {why}') from error
        except urllib3.exceptions.HTTPError as error:
            raise ExtenderFailed(f'Post "{url}": {error}') from error
        if answer.status != 200:
            raise ExtenderFailed(f"failed {verb} with extender at URL {url}, code {answer.status}")
        try:
            return json.JSONDecoder().raw_decode(answer.data.decode().lstrip())[0]
        except ValueError as error:
            raise ExtenderFailed(f"the answer of {url} is no JSON: {error}") from error


def ask(pod: Json, nodes: Mapping[str, Json]) -> Json:
    """The body of filter and prioritize for an extender that has a cache of nodes."""
    shown = {key: pod[key] for key in ("metadata", "spec", "status")}
    return {"Pod": shown, "Nodes": None, "NodeNames": list(nodes)}


def read_filtered(
    answer: Any, nodes: Mapping[str, Json], configuration: ExtenderConfiguration
) -> Filtered:
    """What filter's answer leaves of the nodes that were offered.

    Raises:
        ExtenderFailed: the answer is an error, or names a node that was not offered."""
    read = _keyed(answer)
    if read.get("error"):
        raise ExtenderFailed(str(read["error"]))
    names = read.get("nodenames") or ()
    for name in names:
        if name not in nodes:
            why = f'extender "{configuration.url}" claims a filtered node "{name}"'
            raise ExtenderFailed(f"{why} which is not found in the input node list")
    refused = (read.get("failednodes"), read.get("failedandunresolvablenodes"))
    return Filtered(tuple(names), {**(refused[0] or {}), **(refused[1] or {})})


def read_scores(answer: Any, weight: int) -> dict[str, int]:
    """What prioritize's answer adds to the scheduler's own scores, each of which ends at 100.

    Raises:
        ExtenderFailed: the answer is no list of nodes with integers."""
    try:
        scores = [(_keyed(each)["host"], _keyed(each).get("score", 0)) for each in answer]
    except (KeyError, TypeError) as error:
        raise ExtenderFailed(f"the scores cannot be read: {error!r}") from error
    if not all(isinstance(score, int) for _, score in scores):
        raise ExtenderFailed("a score is no integer")
    return {host: score * weight * 10 for host, score in scores}


def _refused(url: str, error: Exception) -> str:
    cause = error.__cause__
    why = (cause.strerror or str(cause)).lower() if isinstance(cause, OSError) else str(error)
    return f"dial tcp {urlsplit(url).netloc}: connect: {why}"


def _keyed(answer: Any) -> Json:
    """An object with its keys in lower case: Go matches them without regard to case."""
    if not isinstance(answer, dict):
        raise ExtenderFailed("the answer is no object")
    return {key.lower(): value for key, value in answer.items()}
