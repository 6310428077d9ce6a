"""Replays requests that were sent to a real API server and expects its recorded answers."""

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml

from localcluster.embedded import backend
from localcluster.embedded.apiserver.server import Server
from localcluster.embedded.apiserver.wire import Request, Response

_RECORDED: Final = Path(__file__).parents[2] / "data" / "apiserver" / "answers.jsonl"
_DRAWN: Final = frozenset(
    {
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "continue",
        "storageVersionHash",
        "lastTransitionTime",
        "time",
        "ca.crt",
        "remainingItemCount",
    }
)
_UID: Final = re.compile(
    r"(?!00000000-)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
)
_LATE: Final = frozenset({"list limit", "cr after crd delete", "node get", "dep get"})
"""Before these some time passed, in which the slower controllers acted."""

_NO_NOTE_ON_RULES: Final = (
    *("cr invalid no size", "cr invalid size string", "cr invalid color", "cr invalid long"),
    *("cr invalid at", "cr invalid list type", "cr invalid item type", "cr invalid map"),
    *(
        "cr invalid null size",
        "cr invalid bool",
        "cr no spec",
        "cr status bad",
        "cr status bad two",
    ),
)
DIFFERENT: Final[Mapping[str, str]] = {
    **dict.fromkeys(_NO_NOTE_ON_RULES, "it does not add that CEL rules were not checked"),
    "path /version": "it says that it is embedded",
    "path /api": "another address",
    "path /apis/coordination.k8s.io/v1": "no hash of the stored version",
    "discovery": "no hash of the stored version",
    **dict.fromkeys(("pod bad name", "pod bad label", "cr bad name"), "names are not checked"),
    "pod spec immutable": "it gives the rule, not the difference",
    **dict.fromkeys(("cr invalid size 10", "cr invalid pattern"), "no maximum and no pattern"),
    "secret": "no type and no data from stringData",
    "label selector bad": "the words of another parser",
    "label selector bad2": "the words of another parser",
    "continue bad": "lists come whole",
    "list rv future": "another present version",
    "list rv exact old": "the real server was young and had all of its history",
    "list limit": "lists come whole",
    "list limit with selector": "lists come whole",
    "crd delete": "no condition Terminating",
    "cr list": "not so many objects",
    "node create": "conditions without times stay as they are",
    "node get": "no annotation for the time to live of secrets in a kubelet",
    "dep get": "names and texts of ReplicaSets have another hash",
    "rs list": "names and texts of ReplicaSets have another hash",
    "dep pods": "names and texts of ReplicaSets have another hash",
    "token": "a token of our own",
}
"""What is answered differently, and why. A line that is no longer true fails."""


@cache
def recorded() -> list[dict[str, Any]]:
    return [json.loads(line) for line in _RECORDED.read_text().splitlines()]


@cache
def answered() -> dict[str, tuple[int, Any]]:
    """Code and body of the embedded server's answers, by label."""
    kinds = (Path(backend.__file__).parent / "kinds").glob("*.yaml")
    server = Server("here", begin_with=[yaml.safe_load(each.read_text()) for each in kinds])
    routes, found = server.routes, {}
    for each in recorded():
        if each["label"] in _LATE:
            server.controllers.run_all()
        path, _, query = each["path"].partition("?")
        headers = {b"content-type": each["content_type"].encode()}
        body = (each["body"] or "").encode()
        answer = routes.handle(Request.of(each["method"], path, query.encode(), headers, body))
        assert isinstance(answer, Response)
        server.controllers.run_immediate()
        found[each["label"]] = answer.code, _alike(_parsed(answer.body))
    return found


def _parsed(body: bytes) -> Any:
    return msgspec.json.decode(body) if body.startswith((b"{", b"[")) else body.decode()


def _alike(value: Any) -> Any:
    """A value with `*` for what differs from run to run, as in the recording."""
    if isinstance(value, dict):
        kept = {key: each for key, each in value.items() if key != "managedFields"}
        return {key: "*" if key in _DRAWN else _alike(each) for key, each in kept.items()}
    if isinstance(value, list):
        return [_alike(each) for each in value]
    if isinstance(value, str):
        value = re.sub(
            r"kube-api-access-\w{5}", "kube-api-access-*", re.sub(r"ev-\w{5}", "ev-*", value)
        )
        return _UID.sub("*", value)
    return value


@pytest.mark.parametrize(
    "label", [each["label"] for each in recorded() if each["answer"] is not None]
)
def test_the_answer_is_the_real_servers(label: str) -> None:
    wanted = next(each for each in recorded() if each["label"] == label)
    same = answered()[label] == (wanted["status"], wanted["answer"])
    if label in DIFFERENT:
        assert not same, f"it is equal by now: {DIFFERENT[label]}"
    else:
        assert answered()[label] == (wanted["status"], wanted["answer"])
