"""The v1 extender protocol in JSON, exactly as kube-scheduler sends and reads it.

Keys are Go's field names. Of ``Nodes`` and ``NodeNames`` the unused one is ``null``. A reply must
name its nodes explicitly (a missing list means no node, silently), none that was not offered, and,
where no node is left, a reason for each. ``docs/extender-protocol.md`` describes the protocol."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from extender.preempt import Victims
from optimus.kube.errors import Malformed
from optimus.kube.pods import Pod, decode_pod

_NULL = msgspec.Raw(b"null")


class _NodeList(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _ArgsBody(msgspec.Struct):
    pod: msgspec.Raw = msgspec.field(name="Pod", default=_NULL)
    nodes: _NodeList | None = msgspec.field(name="Nodes", default=None)
    names: list[str] | None = msgspec.field(name="NodeNames", default=None)


class _Identified(msgspec.Struct, rename="camel"):
    name: str
    uid: str = ""
    resource_version: str = ""


class _Object(msgspec.Struct):
    metadata: _Identified


@dataclass(frozen=True, slots=True)
class ExtenderArgs:
    """A question of kube-scheduler: the pod, and the names of the nodes on offer."""

    pod: Pod
    names: tuple[str, ...]
    whole_nodes: Mapping[str, msgspec.Raw] | None = None
    """The nodes' JSON by name, where whole nodes were sent (``nodeCacheCapable: false``)."""


class _Victims(msgspec.Struct):
    pods: list[msgspec.Raw] | None = msgspec.field(name="Pods", default=None)
    violations: int = msgspec.field(name="NumPDBViolations", default=0)


class _MetaPod(msgspec.Struct):
    UID: str


class _PreemptionBody(msgspec.Struct):
    pod: msgspec.Raw = msgspec.field(name="Pod", default=_NULL)
    victims: dict[str, _Victims] | None = msgspec.field(name="NodeNameToVictims", default=None)
    meta_victims: dict[str, _Victims] | None = msgspec.field(
        name="NodeNameToMetaVictims", default=None
    )


@dataclass(frozen=True, slots=True)
class ExtenderPreemptionArgs:
    """A question of kube-scheduler: the pod, and whom it would evict on which node."""

    pod: Pod
    victims: Mapping[str, Victims]


_ARGS_BODY = msgspec.json.Decoder(_ArgsBody)
_PREEMPTION_BODY = msgspec.json.Decoder(_PreemptionBody)
_META_POD = msgspec.json.Decoder(_MetaPod)
_OBJECT = msgspec.json.Decoder(_Object)

FindPod = Callable[[str, str], Pod | None]
"""The pod with a UID and resource version, where it has been decoded before."""


def read_args(body: bytes, find_pod: FindPod = lambda *_: None) -> ExtenderArgs:
    """The arguments of filter and prioritize.

    Raises:
        Malformed: with a sentence that says what is wrong with the body.
    """
    try:
        arguments = _ARGS_BODY.decode(body)
        if arguments.pod == _NULL:
            raise Malformed('the body names no "Pod"')
        if arguments.names is not None:
            return ExtenderArgs(_read_pod(arguments.pod, find_pod), tuple(arguments.names))
        if arguments.nodes is not None:
            items = arguments.nodes.items or ()
            whole = {_OBJECT.decode(node).metadata.name: node.copy() for node in items}
            return ExtenderArgs(_read_pod(arguments.pod, find_pod), tuple(whole), whole)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise Malformed(f"the body is not the JSON of ExtenderArgs: {error}") from error
    raise Malformed('the body has neither "NodeNames" nor "Nodes"')


def read_preemption_args(
    body: bytes, find_pod: FindPod = lambda *_: None
) -> ExtenderPreemptionArgs:
    """The arguments of preempt: the victims as whole pods or, ``nodeCacheCapable``, as UIDs.

    Raises:
        Malformed: with a sentence that says what is wrong with the body.
    """
    try:
        arguments = _PREEMPTION_BODY.decode(body)
        if arguments.pod == _NULL:
            raise Malformed('the body names no "Pod"')
        if arguments.meta_victims is not None:
            found, uid_of = arguments.meta_victims, _uid_of_meta_pod
        elif arguments.victims is not None:
            found, uid_of = arguments.victims, _uid_of_pod
        else:
            raise Malformed('the body has neither "NodeNameToMetaVictims" nor "NodeNameToVictims"')
        victims = {
            node: Victims(tuple(uid_of(pod) for pod in each.pods or ()), each.violations)
            for node, each in found.items()
        }
        return ExtenderPreemptionArgs(_read_pod(arguments.pod, find_pod), victims)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        sentence = f"the body is not the JSON of ExtenderPreemptionArgs: {error}"
        raise Malformed(sentence) from error


def _uid_of_meta_pod(raw: msgspec.Raw) -> str:
    return _META_POD.decode(raw).UID


def _uid_of_pod(raw: msgspec.Raw) -> str:
    return _OBJECT.decode(raw).metadata.uid


def _read_pod(raw: msgspec.Raw, find_pod: FindPod) -> Pod:
    """The watch has usually shown this very version of the pod: decoding takes most of a call."""
    with suppress(msgspec.MsgspecError, UnicodeError, RecursionError):
        metadata = _OBJECT.decode(raw).metadata
        known = find_pod(metadata.uid, metadata.resource_version)
        if known is not None:
            return known
    return decode_pod(raw)


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


class _MetaVictims(msgspec.Struct):
    Pods: list[_MetaPod]
    NumPDBViolations: int


_ENCODER = msgspec.json.Encoder()


def filter_answer(args: ExtenderArgs, kept: tuple[str, ...], refused: Mapping[str, str]) -> bytes:
    """The reply to filter. Every refusal is unresolvable: no eviction makes the node acceptable."""
    if args.whole_nodes is None:
        return _ENCODER.encode(_FilterResult(None, list(kept), {}, refused, ""))
    nodes = _WholeNodes([args.whole_nodes[name] for name in kept])
    return _ENCODER.encode(_FilterResult(nodes, None, {}, refused, ""))


def filter_error(sentence: str) -> bytes:
    """The reply to filter that fails the attempt; kube-scheduler logs it and writes an Event."""
    return _ENCODER.encode(_FilterResult(None, [], {}, {}, sentence))


def prioritize_answer(scores: Mapping[str, int]) -> bytes:
    """The reply to prioritize: a bare array."""
    return _ENCODER.encode([_Score(name, score) for name, score in scores.items()])


def prioritize_error(sentence: str) -> bytes:
    """No array: kube-scheduler logs that, and scores without the extender."""
    return _ENCODER.encode({"Error": sentence})


def preempt_answer(victims: Mapping[str, Victims]) -> bytes:
    """The reply to preempt: UIDs by node, whichever form was asked in."""
    nodes = {
        node: _MetaVictims([_MetaPod(uid) for uid in each.uids], each.budget_violations)
        for node, each in victims.items()
    }
    return _ENCODER.encode({"NodeNameToMetaVictims": nodes})


def preempt_error(sentence: str) -> bytes:
    """A veto: after a failure, an ignorable extender would be skipped and pods evicted.

    kube-scheduler does not read ``Error`` here; it is for people who read the traffic."""
    return _ENCODER.encode({"NodeNameToMetaVictims": {}, "Error": sentence})
