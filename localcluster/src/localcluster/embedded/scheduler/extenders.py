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
        self._configuration = configuration
        self.ignorable = configuration.ignorable
        self._pool = urllib3.PoolManager(retries=False, timeout=configuration.timeout_seconds)

    def filter(self, pod: Json, nodes: Sequence[str]) -> Filtered:
        """Ask which of the nodes the pod may go to. Raises ExtenderFailed."""
        if not self._configuration.filter_verb:
            return Filtered(nodes)
        read = _keyed(self._post(self._configuration.filter_verb, pod, nodes))
        if read.get("error"):
            raise ExtenderFailed(str(read["error"]))
        names = read.get("nodenames") or ()
        for name in names:
            if name not in nodes:
                why = f'extender "{self._configuration.url}" claims a filtered node "{name}"'
                raise ExtenderFailed(f"{why} which is not found in the input node list")
        failed = read.get("failednodes") or {}
        return Filtered(tuple(names), {**failed, **(read.get("failedandunresolvablenodes") or {})})

    def prioritize(self, pod: Json, nodes: Sequence[str]) -> dict[str, int]:
        """Ask for scores to add to the scheduler's own (0 to 100). Raises ExtenderFailed."""
        if not self._configuration.prioritize_verb:
            return {}
        answer = self._post(self._configuration.prioritize_verb, pod, nodes)
        weight = 10 * self._configuration.weight
        try:
            keyed = [_keyed(each) for each in answer]
            return {each["host"]: int(each.get("score", 0)) * weight for each in keyed}
        except (KeyError, TypeError, ValueError) as error:
            raise ExtenderFailed(f"the scores cannot be read: {error!r}") from error

    def _post(self, verb: str, pod: Json, nodes: Sequence[str]) -> Any:
        """Ask, and return the answer."""
        url = f"{self._configuration.url}/{verb}"
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "Go-http-client/1.1",
            "Accept-Encoding": "gzip",
        }
        text = json.dumps(question(pod, nodes), separators=(",", ":")).encode()
        try:
            answer = self._pool.request("POST", url, body=text, headers=headers)
        except urllib3.exceptions.NewConnectionError as error:  # a TimeoutError to the library
            why = f"dial tcp {urlsplit(url).netloc}: connect: connection refused"
            raise ExtenderFailed(f'Post "{url}": {why}') from error
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


def question(pod: Json, nodes: Sequence[str]) -> Json:
    """Return the body of filter and prioritize for an extender that has a cache of nodes."""
    shown = {key: pod[key] for key in ("metadata", "spec", "status")}
    return {"Pod": shown, "Nodes": None, "NodeNames": list(nodes)}


def _keyed(answer: Any) -> Json:
    """Return an object with its keys in lower case: Go matches them without regard to case."""
    if not isinstance(answer, dict):
        raise ExtenderFailed("the answer is no object")
    return {key.lower(): value for key, value in answer.items()}
