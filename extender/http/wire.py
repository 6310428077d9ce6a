"""The v1 extender protocol in JSON, exactly as kube-scheduler speaks it.

Keys are Go's field names. Of ``Nodes`` and ``NodeNames`` the one that is not used is ``null``; a
reply must name its nodes explicitly (a missing list means no node, silently), none that was not
offered, and a reason for every node that it drops. ``docs/extender-protocol.md`` tells the protocol
whole."""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from optimus.kube.errors import Malformed
from optimus.kube.pods import Pod, decode_pod

_NULL = msgspec.Raw(b"null")


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _Arguments(msgspec.Struct):
    pod: msgspec.Raw = msgspec.field(name="Pod", default=_NULL)
    nodes: _NodeList | None = msgspec.field(name="Nodes", default=None)
    names: list[str] | None = msgspec.field(name="NodeNames", default=None)


class _Named(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Named


@dataclass(frozen=True, slots=True)
class Question:
    """What kube-scheduler asks: the pod, and the nodes on offer.

    ``whole_nodes`` holds the nodes' JSON where whole nodes were sent (``nodeCacheCapable: false``),
    else ``None``."""

    pod: Pod
    names: tuple[str, ...]
    whole_nodes: Mapping[str, msgspec.Raw] | None = None


_ARGUMENTS = msgspec.json.Decoder(_Arguments)
_NODE = msgspec.json.Decoder(_Node)


def read_question(body: bytes) -> Question:
    """The arguments of filter and prioritize.

    Raises:
        Malformed: with a sentence that says what is wrong with the body.
    """
    try:
        arguments = _ARGUMENTS.decode(body)
        if arguments.pod == _NULL:
            raise Malformed('the body names no "Pod"')
        if arguments.names is not None:
            return Question(decode_pod(arguments.pod), tuple(arguments.names))
        if arguments.nodes is not None:
            whole = {
                _NODE.decode(node).metadata.name: node.copy()
                for node in arguments.nodes.items or ()
            }
            return Question(decode_pod(arguments.pod), tuple(whole), whole)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"the body is not the JSON of ExtenderArgs: {error}") from error
    raise Malformed('the body has neither "NodeNames" nor "Nodes"')


class _WholeNodes(msgspec.Struct):
    items: list[msgspec.Raw]
    metadata: dict[str, str] = msgspec.field(default_factory=dict)


class _FilterResult(msgspec.Struct):
    Nodes: _WholeNodes | None
    NodeNames: list[str] | None
    FailedNodes: Mapping[str, str]
    FailedAndUnresolvableNodes: Mapping[str, str]
    Error: str


class _Score(msgspec.Struct):
    Host: str
    Score: int


_ENCODER = msgspec.json.Encoder()


def filter_answer(question: Question, kept: tuple[str, ...], refused: Mapping[str, str]) -> bytes:
    """The reply to filter. Every refusal is "unresolvable": evicting pods would not make the node
    acceptable."""
    if question.whole_nodes is None:
        return _ENCODER.encode(_FilterResult(None, list(kept), {}, refused, ""))
    nodes = _WholeNodes([question.whole_nodes[name] for name in kept])
    return _ENCODER.encode(_FilterResult(nodes, None, {}, refused, ""))


def filter_error(sentence: str) -> bytes:
    """The reply to filter that fails the attempt; kube-scheduler shows the sentence in its log and
    in an Event."""
    return _ENCODER.encode(_FilterResult(None, [], {}, {}, sentence))


def prioritize_answer(scores: Mapping[str, int]) -> bytes:
    """The reply to prioritize: a bare array."""
    return _ENCODER.encode([_Score(name, score) for name, score in scores.items()])


def prioritize_error(sentence: str) -> bytes:
    """No array: kube-scheduler logs that, and scores without us."""
    return _ENCODER.encode({"Error": sentence})
