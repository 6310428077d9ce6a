"""The extender's JSON, against recorded bodies of a real kube-scheduler."""

import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from extender.http import wire
from optimus.kube.errors import Malformed
from tests.cases import cases

RECORDED = Path(__file__).parents[2] / "data" / "wire"
POD = {"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": {"containers": []}}


def recorded(pattern: str) -> list[Any]:
    return [
        pytest.param(path, id=path.name.removesuffix(".request.json"))
        for path in sorted(RECORDED.glob(pattern))
    ]


@pytest.mark.parametrize(
    "path", recorded("*filter.request.json") + recorded("*prioritize.request.json")
)
def test_what_a_real_kube_scheduler_sends_is_read(path: Path) -> None:
    sent = json.loads(path.read_bytes())
    args = wire.read_args(path.read_bytes())
    names = sent["NodeNames"] or [node["metadata"]["name"] for node in sent["Nodes"]["items"]]
    assert list(args.names) == names
    assert args.pod.uid == sent["Pod"]["metadata"]["uid"]
    assert args.pod.nominated_node == sent["Pod"]["status"].get("nominatedNodeName")
    assert (args.whole_nodes is None) == (sent["Nodes"] is None)


@pytest.mark.parametrize("path", recorded("*cachecap-false*filter.request.json"))
def test_whole_nodes_come_back_as_they_were_sent(path: Path) -> None:
    sent = json.loads(path.read_bytes())
    args = wire.read_args(path.read_bytes())
    kept = args.names[:1]
    answer = json.loads(wire.filter_answer(args, kept, {}))
    assert answer == {
        "Nodes": {"items": sent["Nodes"]["items"][:1], "metadata": {}},
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {},
        "Error": "",
    }


@pytest.mark.parametrize("path", recorded("*preempt.request.json"))
def test_victims_are_read_in_either_form(path: Path) -> None:
    sent = json.loads(path.read_bytes())
    args = wire.read_preemption_args(path.read_bytes())
    assert args.pod.uid == sent["Pod"]["metadata"]["uid"]
    by_node = sent["NodeNameToMetaVictims"] or sent["NodeNameToVictims"]
    assert {node: victims.uids for node, victims in args.victims.items()} == {
        node: tuple(each.get("UID") or each["metadata"]["uid"] for each in found["Pods"])
        for node, found in by_node.items()
    }
    answer = path.with_name(path.name.replace("request", "response"))
    assert json.loads(wire.preempt_answer(args.victims)) == json.loads(answer.read_bytes())


@cases(
    ("body", "sentence"),
    {
        "no JSON": (b"{", "the body is not the JSON of ExtenderPreemptionArgs: "),
        "too deep": (b"[" * 5000, "the body is not the JSON of ExtenderPreemptionArgs: "),
        "no pod": (b'{"NodeNameToVictims":{}}', 'the body names no "Pod"'),
        "no victims": (
            json.dumps({"Pod": POD}).encode(),
            'the body has neither "NodeNameToMetaVictims" nor "NodeNameToVictims"',
        ),
        "a pod that is no UTF-8": (
            b'{"Pod":{"metadata":{"name":"\xff","uid":"u"}},"NodeNameToVictims":{}}',
            "not a pod",
        ),
    },
)
def test_a_bad_body_of_preempt_is_refused_with_a_sentence(body: bytes, sentence: str) -> None:
    with pytest.raises(Malformed, match=sentence):
        wire.read_preemption_args(body)


def args_body(**arguments: object) -> bytes:
    return json.dumps({"Pod": POD, "Nodes": None, "NodeNames": None} | arguments).encode()


def test_the_exact_json_of_each_answer() -> None:
    asked = wire.read_args(args_body(NodeNames=["n1", "n2"]))
    assert wire.filter_answer(asked, ("n1",), {"n2": "why"}) == (
        b'{"Nodes":null,"NodeNames":["n1"],"FailedNodes":{},"FailedAndUnresolvableNodes":{"n2":"why"},"Error":""}'
    )
    # Never {} and never null: kube-scheduler would take that for "no node", silently.
    assert wire.filter_answer(asked, (), {}) == (
        b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":""}'
    )
    assert wire.filter_error("why") == (
        b'{"Nodes":null,"NodeNames":[],"FailedNodes":{},"FailedAndUnresolvableNodes":{},"Error":"why"}'
    )
    assert (
        wire.prioritize_answer({"n1": 10, "n2": 0})
        == b'[{"Host":"n1","Score":10},{"Host":"n2","Score":0}]'
    )
    assert wire.prioritize_answer({}) == b"[]"
    assert wire.prioritize_error("why") == b'{"Error":"why"}'
    assert wire.preempt_error("why") == b'{"NodeNameToMetaVictims":{},"Error":"why"}'


@cases(
    ("body", "sentence"),
    {
        "nothing": (b"", "the body is not the JSON of ExtenderArgs"),
        "no JSON": (b"hello", "the body is not the JSON of ExtenderArgs"),
        "JSON of another kind": (b"[]", "the body is not the JSON of ExtenderArgs"),
        "no pod": (b"{}", 'the body names no "Pod"'),
        "a pod that is null": (b'{"Pod":null,"NodeNames":[]}', 'the body names no "Pod"'),
        "no nodes": (args_body(), 'the body has neither "NodeNames" nor "Nodes"'),
        "a pod without a name": (b'{"Pod":{"spec":{}},"NodeNames":["n"]}', "not a pod"),
        "a nameless node": (
            args_body(Nodes={"items": [{"spec": {}}]}),
            "the body is not the JSON of ExtenderArgs",
        ),
        "too deep": (b"[" * 5000, "the body is not the JSON of ExtenderArgs"),
        "no UTF-8": (b'{"Pod":"\xff","NodeNames":[]}', "not a pod"),
        "a name that is no UTF-8": (
            b'{"Pod":{"metadata":{"name":"\xff","uid":"u"}},"NodeNames":[]}',
            "not a pod",
        ),
    },
)
def test_a_bad_body_is_refused_with_a_sentence(body: bytes, sentence: str) -> None:
    with pytest.raises(Malformed, match=sentence):
        wire.read_args(body)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "Pod",
                    "Nodes",
                    "NodeNames",
                    "items",
                    "metadata",
                    "name",
                    "uid",
                    "spec",
                    "containers",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.binary(max_size=60) | json_values.map(msgspec.json.encode))
@example(
    b'{"Pod":{"metadata":{"name":"a","uid":"b"},"spec":{"containers":[{"resources":{"requests":{"cpu":"x"}}}]}}}'
)
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    with contextlib.suppress(Malformed):
        assert isinstance(wire.read_args(body), wire.ExtenderArgs)
