"""Variables: expansion, fields, resources, config maps and secrets."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.environment import EnvironmentContext, Unresolved, resolve_environment
from localcluster.node.expansion import expand
from tests.unit.node.pods import container, pod


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("a $(X) b", "a 1 b", id="a known variable is replaced"),
        pytest.param("$(NOPE)", "$(NOPE)", id="an unknown one stays as it is written"),
        pytest.param("$$(X)", "$(X)", id="two dollars are one, and no reference"),
        pytest.param("$$$(X)", "$1", id="a dollar before a reference"),
        pytest.param("$X ${X}", "$X ${X}", id="the shell's own forms are left to the shell"),
        pytest.param("$(X", "$(X", id="an open parenthesis is text"),
        pytest.param("$(Y)", "$(X)", id="what a value holds is not expanded again"),
    ],
)
def test_expansion(text: str, expected: str) -> None:
    assert expand(text, {"X": "1", "Y": "$(X)"}) == expected


@given(st.text(alphabet=st.characters(blacklist_characters="$")))
def test_text_without_a_dollar_is_never_changed(text: str) -> None:
    assert expand(text, {"X": "1"}) == text


class Objects:
    """Config maps and secrets, written down."""

    def __init__(self, **values: Mapping[str, bytes]) -> None:
        self._values = values

    def values(self, kind: str, namespace: str, name: str) -> Mapping[str, bytes] | None:
        return self._values.get(f"{kind}_{name}") if namespace == "ns" else None


def resolve(
    entries: list[dict[str, Any]], source: Objects | None = None, **fields: Any
) -> dict[str, str]:
    """Resolve a container's variables on a base of A=base."""
    raw = container(env=entries, **fields)
    whole = pod(raw, labels={"role": "ps"}, serviceAccountName="me")
    context = EnvironmentContext(
        whole, source or Objects(), {"A": "base"}, {"cpu": "8"}, {"L": "local"}
    )
    return resolve_environment(raw, context)


RESOURCES = {"limits": {"memory": "1Gi"}, "requests": {"cpu": "250m", "memory": "512Mi"}}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param({"fieldRef": {"fieldPath": "metadata.name"}}, "p", id="the pod's name"),
        pytest.param({"fieldRef": {"fieldPath": "metadata.labels['role']"}}, "ps", id="one label"),
        pytest.param(
            {"fieldRef": {"fieldPath": "metadata.labels['no']"}}, "", id="a label that is not there"
        ),
        pytest.param({"fieldRef": {"fieldPath": "metadata.labels"}}, 'role="ps"', id="all labels"),
        pytest.param({"fieldRef": {"fieldPath": "spec.nodeName"}}, "n1", id="the node"),
        pytest.param(
            {"fieldRef": {"fieldPath": "spec.serviceAccountName"}}, "me", id="the service account"
        ),
        pytest.param(
            {"fieldRef": {"fieldPath": "status.podIP"}}, "127.0.0.1", id="the address of the pod"
        ),
        pytest.param(
            {"resourceFieldRef": {"resource": "limits.memory"}}, "1073741824", id="a limit in bytes"
        ),
        pytest.param(
            {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}},
            "1024",
            id="a limit in mebibytes",
        ),
        pytest.param(
            {"resourceFieldRef": {"resource": "requests.cpu"}}, "1", id="cores are rounded up"
        ),
        pytest.param(
            {"resourceFieldRef": {"resource": "limits.cpu"}},
            "8",
            id="no limit means the whole node",
        ),
        pytest.param(
            {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}},
            "250",
            id="a request in millicores",
        ),
        pytest.param(
            {"configMapKeyRef": {"name": "c", "key": "k"}}, "v", id="a key of a config map"
        ),
        pytest.param({"secretKeyRef": {"name": "s", "key": "k"}}, "w", id="a key of a secret"),
    ],
)
def test_value_from(source: dict[str, Any], expected: str) -> None:
    objects = Objects(configmap_c={"k": b"v"}, secret_s={"k": b"w"})
    assert (
        resolve([{"name": "X", "valueFrom": source}], objects, resources=RESOURCES)["X"] == expected
    )


@pytest.mark.parametrize(
    ("entries", "sentence"),
    [
        pytest.param(
            [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
            'configmap "c" not found',
            id="a config map that is not there",
        ),
        pytest.param(
            [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "no"}}}],
            "couldn't find key no in secret ns/s",
            id="a key that is not there",
        ),
        pytest.param(
            [{"name": "X", "valueFrom": {"fieldRef": {"fieldPath": "spec.hostname"}}}],
            'field "spec.hostname" is not known',
            id="a field that is not supported",
        ),
        pytest.param(
            [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "binary"}}}],
            "is not text",
            id="a secret that is not text",
        ),
    ],
)
def test_what_cannot_be_resolved_is_a_sentence(
    entries: list[dict[str, Any]], sentence: str
) -> None:
    with pytest.raises(Unresolved, match=sentence):
        resolve(entries, Objects(secret_s={"k": b"w", "binary": b"\xff"}))


def test_optional_references_leave_the_variable_out() -> None:
    entries = [
        {"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}}}
    ]
    assert "X" not in resolve(entries)


def test_values_refer_to_earlier_ones_and_to_rewritten_literals() -> None:
    entries = [
        {"name": "L", "value": "j-ps-0"},
        {"name": "X", "value": "$(A)/$(L)"},
        {"name": "EARLY", "value": "$(LATE)"},
        {"name": "LATE", "value": "1"},
    ]
    found = resolve(entries)
    assert (found["X"], found["EARLY"]) == ("base/local", "$(LATE)")


def test_env_from_comes_before_env_and_takes_a_prefix() -> None:
    objects = Objects(configmap_c={"A": b"c", "B": b"c"}, secret_s={"B": b"s"})
    sources = [{"configMapRef": {"name": "c"}}, {"secretRef": {"name": "s"}, "prefix": "P_"}]
    found = resolve([{"name": "B", "value": "own"}], objects, envFrom=sources)
    assert found == {"A": "c", "B": "own", "P_B": "s"}
