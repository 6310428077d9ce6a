"""Throws mutated and generated webhook bodies at the extender, and checks every answer:
``python -m benchmarks.extender_fuzz [--bodies 100000] [--seed 1] [--seconds 300]``.

The bodies go through the WSGI application, without a network. The seeds are requests that a real
kube-scheduler sent (``tests/data/wire``), and such requests for the pods of a small cluster in
which gangs come, are planned, bound and end meanwhile. Each body is such a request, mutated as JSON
or as bytes or not at all, or is made up.

What must hold of every answer: the status is 200; no exception was raised; ``/filter`` answers or
refuses exactly the offered nodes, and no other; ``/prioritize`` scores offered nodes from 0 to 10;
``/preempt`` allows victims only as they were offered. And what the extender remembers must not
grow: the resident memory is read every 10,000 bodies, and what the planner holds is counted."""

import argparse
import io
import json
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, Final

import msgspec

from benchmarks.extender_throughput import NODE, pod_bodies
from extender.http.app import Endpoints, RoutedApp, Verbs, create_app
from extender.metrics import Metrics
from extender.parts import Parts
from extender.settings import Settings
from optimus.kube.pods import Pod, decode_pod
from optimus.nodes import Node
from optimus.placement.queue.order import Instant

RECORDED: Final = Path(__file__).resolve().parents[1] / "tests" / "data" / "wire"
VERBS: Final = ("filter", "prioritize", "preempt")
NODES: Final = 12
RECORDED_NODES: Final = ("node-a", "node-best", "a")
"""Of the nodes in the recorded requests, those that the extender knows."""

MOST_BYTES: Final = 50_000
LIVING_GANGS: Final = 6
SECONDS_PER_BODY: Final = 0.05
"""By the extender's clock."""

SAMPLE: Final = 10_000
"""After so many bodies the resident memory is read, and what the planner holds."""

MOST_REMEMBERED: Final = 80
"""The planner holds no more entries of any kind: more would be a growth."""

STEP: Final = 50
"""After so many bodies something happens in the cluster."""

_ODD: Final[tuple[Any, ...]] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**30, 0.5, 1e308, "", "0", "-1",
    "x", "1e9", "9" * 40, "1Ei", "\x00", "é\u2028", "\ud800", "a" * 3000, [], {}, [[]], [None],
    {"": None}, "node-00000", "2026-11-20T22:42:48Z", "9999-99-99", "TFJob", "worker",
    "kubeflow.org/v1",
)  # fmt: skip


class Wrong(Exception):
    """An answer that must not be; ``str()`` says what is wrong with it."""


@dataclass(slots=True)
class FuzzedExtender:
    """An extender over a few nodes, with gangs that come and go."""

    random: Random
    faults: list[str] = field(default_factory=list)
    """What the extender logs as errors, which the caller collects."""

    app: RoutedApp = field(init=False)
    parts: Parts = field(init=False)
    names: list[str] = field(init=False)
    now: float = 0.0
    """The extender's clock, in seconds."""

    pods: dict[str, list[tuple[bytes, Pod]]] = field(default_factory=dict)
    """The living pods of each job, as the API server has them."""

    _made: int = 0

    def __post_init__(self) -> None:
        """A dozen nodes."""
        self.parts = parts = Parts.of(Settings(), lambda: Instant(self.now, self.now))
        verbs = Verbs.of(parts)
        self.app = create_app(Endpoints(verbs, lambda: None, Metrics(), MOST_BYTES))
        self.names = [f"node-{at:05}" for at in range(NODES)]
        for name in (*self.names, *RECORDED_NODES):
            self.parts.handlers.set_node(name, Node(name, NODE))
        parts.leading.begin()
        for _ in range(LIVING_GANGS):
            self._submit()

    def live(self) -> None:
        """One event: a pod is bound where it is planned, or a gang ends and another comes."""
        self.parts.pending.outdated_refusals()
        self.parts.pending.pods_to_ask_about()
        pending = self.parts.pending.planned()
        if pending and self.random.random() < 0.7:
            chosen = self.random.choice(pending)
            self._bind(chosen.pod, chosen.node)
        else:
            self._end(next(iter(self.pods)))
            self._submit()
        if self.random.random() < 0.2:
            self.parts.planner.plan_slice()
        if self.parts.state.reservations.overcommitted():
            raise Wrong("more is reserved than there is")

    def call(self, verb: str, body: bytes) -> bytes:
        """The answer; raises Wrong where it is not 200 or an exception was raised on the way."""
        statuses: list[str] = []

        def start_response(status: str, *_: object) -> Callable[[bytes], object]:
            statuses.append(status)
            return bytes  # WSGI's write function, which the application does not use

        environ = {
            "REQUEST_METHOD": "POST",
            "PATH_INFO": f"/{verb}",
            "SERVER_NAME": "127.0.0.1",
            "SERVER_PORT": "8888",
            "wsgi.url_scheme": "http",
            "wsgi.input": io.BytesIO(body),
            "CONTENT_LENGTH": str(len(body)),
        }
        answer = b"".join(self.app(environ, start_response))
        if statuses != ["200 OK"]:
            raise Wrong(f"answered with {statuses}")
        if self.faults:
            raise Wrong(f"logged {self.faults.pop()}")
        return answer

    def remembered(self) -> dict[str, int]:
        """How much the planner holds of what it was asked."""
        queue, state = self.parts.state.queue, self.parts.state
        return {
            "asked": len(queue.asked),
            "cached": len(queue.cached),
            "paused": len(queue.paused),
            "incomplete": len(state.refused_for_now),
            "asked_pods": len(state.asked_at),
            "answered": len(state.answered_at),
            "tried_in_call": len(state.tried_in_call),
            "offers": len(state.offers.jobs),
            "refusals": len(state.refusals),
            "reserved": state.reservation_count(),
        }

    def _submit(self) -> None:
        self._made += 1
        job = f"job-{self._made}"
        ps, workers = self.random.randint(1, 3), self.random.randint(1, 6)
        made = [(raw, decode_pod(raw)) for raw in pod_bodies(job, ps, workers)]
        self.pods[job] = made
        for _, pod in made:
            self.parts.handlers.pod(None, pod)

    def _end(self, job: str) -> None:
        for _, pod in self.pods.pop(job):
            self.parts.handlers.pod(pod, None)
        self.parts.handlers.set_job(job, None)

    def _bind(self, pod: Pod, node: str) -> None:
        for job, pods in self.pods.items():
            for at, (raw, known) in enumerate(pods):
                if known.uid == pod.uid:
                    bound = msgspec.structs.replace(known, node=node)
                    self.parts.handlers.pod(known, bound)
                    self.pods[job][at] = raw, bound
                    return


class Bodies:
    """Draws one body after the other."""

    def __init__(self, random: Random, fuzzed: FuzzedExtender) -> None:
        self._random, self._fuzzed, self._gone = random, fuzzed, 0
        self._recorded: dict[str, list[Any]] = {
            verb: [
                json.loads(path.read_text())
                for path in sorted(RECORDED.glob(f"*{verb}.request.json"))
            ]
            for verb in VERBS
        }

    def draw(self, verb: str) -> bytes:
        """A body for this verb."""
        random = self._random
        kind = random.random()
        if kind < 0.02:
            return random.randbytes(random.randrange(200))
        body = self._request(verb)
        for _ in range(random.choice((0, 0, 1, 1, 2, 5))):
            body = self._mutated(body)
        encoded = json.dumps(body, ensure_ascii=random.random() < 0.5).encode(
            errors="surrogatepass"
        )
        return self._damaged(encoded) if kind < 0.2 else encoded

    def _request(self, verb: str) -> Any:
        random, fuzzed = self._random, self._fuzzed
        if random.random() < 0.4:
            return random.choice(self._recorded[verb])
        raw, pod = random.choice(random.choice([*fuzzed.pods.values()]))
        if random.random() < 0.02:
            # Gone before the watch showed it: kube-scheduler may ask all the same.
            self._gone += 1
            raw = random.choice(pod_bodies(f"gone-{self._gone}", 0, random.randint(1, 2)))
            pod = decode_pod(raw)
        asked: dict[str, Any] = {"Pod": json.loads(raw)}
        if verb == "preempt":
            uids = [other.uid for pods in fuzzed.pods.values() for _, other in pods]
            victims = {
                name: {"Pods": [{"UID": uid} for uid in random.sample(uids, 2)]}
                for name in random.sample(fuzzed.names, 3)
            }
            return asked | {"NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
        planned = fuzzed.parts.state.reservations.ledger.get(pod.replica) if pod.replica else None
        names = random.sample(fuzzed.names, random.randint(0, NODES))
        if planned is not None and random.random() < 0.3:
            names = [planned.node]
            asked["Pod"]["status"]["nominatedNodeName"] = planned.node
        if random.random() < 0.2:
            items = [
                {"metadata": {"name": name}, "spec": {"x": at}} for at, name in enumerate(names)
            ]
            return asked | {"Nodes": {"items": items}, "NodeNames": None}
        return asked | {"Nodes": None, "NodeNames": names}

    def _mutated(self, value: Any) -> Any:
        """A copy in which one value is another, is gone, is there twice or has another name."""
        random = self._random
        if isinstance(value, dict) and value and random.random() < 0.85:
            return self._mutated_object(value)
        if isinstance(value, list) and value and random.random() < 0.85:
            return self._mutated_list(value)
        if isinstance(value, str) and random.random() < 0.5:
            return self._other_text(value)
        return random.choice(_ODD)

    def _mutated_object(self, value: dict[str, Any]) -> dict[str, Any]:
        random, draw = self._random, self._random.random()
        key = random.choice([*value])
        if draw < 0.8:
            return {**value, key: self._mutated(value[key])}
        if draw < 0.87:
            return {name: each for name, each in value.items() if name != key}
        if draw < 0.94:
            return {**value, random.choice((key.lower(), f"{key}s", "")): value[key]}
        return {**value, random.choice([*value]): value[key]}

    def _mutated_list(self, value: list[Any]) -> list[Any]:
        random, draw = self._random, self._random.random()
        at = random.randrange(len(value))
        if draw < 0.7:
            return [*value[:at], self._mutated(value[at]), *value[at + 1 :]]
        if draw < 0.85:
            return value[:at] + value[at + 1 :]
        return value * random.choice((2, 2, 30))

    def _other_text(self, text: str) -> str:
        random = self._random
        at = random.randint(0, len(text))
        return random.choice(
            (
                text[:at],
                text[at:],
                text * 2,
                text[:at] + chr(random.randrange(1, 0x500)) + text[at:],
            )
        )

    def _damaged(self, body: bytes) -> bytes:
        random, damaged = self._random, bytearray(body)
        for _ in range(random.randint(1, 4)):
            at = random.randrange(len(damaged) + 1)
            draw = random.random()
            if draw < 0.4 and at < len(damaged):
                damaged[at] = random.randrange(256)
            elif draw < 0.7:
                del damaged[at : at + random.randint(1, 30)]
            else:
                token = random.choice(
                    (b'"', b"{", b"}", b"[", b"]", b",", b"null", b"\\u0000", b"1e999")
                )
                damaged[at:at] = token * random.choice((1, 1, 1, 500))
        return bytes(damaged)


# --- what must hold of an answer


def check(verb: str, sent: bytes, answer: bytes) -> bool:
    """Raise Wrong where an answer must not be; returns whether it is a decision and no error."""
    found = json.loads(answer.decode(errors="replace"))
    if isinstance(found, dict) and found.get("Error"):
        if "internal error" in found["Error"]:
            raise Wrong(found["Error"])
        if any(found.get(key) for key in ("NodeNames", "Nodes", "NodeNameToMetaVictims")):
            raise Wrong("an error, and an answer")
        return False
    asked = json.loads(sent.decode(errors="replace"))  # a value that is not needed may be no text
    _CHECKS[verb](asked, found)
    return True


def _offered(asked: Mapping[str, Any]) -> Sequence[str]:
    if asked.get("NodeNames") is not None:
        return list(asked["NodeNames"])
    return [node["metadata"]["name"] for node in asked["Nodes"].get("items") or ()]


def _check_filter(asked: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    offered, refused = {*_offered(asked)}, {*found["FailedAndUnresolvableNodes"]}
    if asked.get("NodeNames") is not None:
        kept = found["NodeNames"]
    else:
        kept = [node["metadata"]["name"] for node in found["Nodes"]["items"]]
        whole = {node["metadata"]["name"]: node for node in asked["Nodes"].get("items") or ()}
        if found["Nodes"]["items"] != [whole[name] for name in kept]:
            raise Wrong("a node is answered otherwise than it was sent")
    if not {*kept} <= offered:
        raise Wrong(f"answered nodes that were not offered: {sorted({*kept} - offered)}")
    if {*kept} & refused:
        raise Wrong(f"answered and refused: {sorted({*kept} & refused)}")
    if len(kept) != 1 and {*kept} | refused != offered:
        raise Wrong(f"neither answered nor refused: {sorted(offered - {*kept} - refused)}")
    if not refused <= offered or not all(found["FailedAndUnresolvableNodes"].values()):
        raise Wrong("refused what was not offered, or without a reason")


def _check_scores(asked: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> None:
    hosts = [each["Host"] for each in found]
    if {*hosts} != {*_offered(asked)} or len({*hosts}) != len(hosts):
        raise Wrong("not every offered node has one score")
    if not all(0 <= each["Score"] <= 10 for each in found):
        raise Wrong("a score is not from 0 to 10")


def _check_victims(asked: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    meta = asked.get("NodeNameToMetaVictims")
    offered = asked["NodeNameToVictims"] if meta is None else meta
    for node, victims in found["NodeNameToMetaVictims"].items():
        pods = offered[node].get("Pods") or ()
        uids = [pod["UID"] if meta is not None else pod["metadata"].get("uid", "") for pod in pods]
        if [pod["UID"] for pod in victims["Pods"]] != uids:
            raise Wrong(f"other victims on {node} than were offered")


_CHECKS: Final[Mapping[str, Callable[[Any, Any], None]]] = {
    "filter": _check_filter,
    "prioritize": _check_scores,
    "preempt": _check_victims,
}


# --- a run


def resident_mib() -> int:
    """What this process has in memory, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return math.ceil(pages * os.sysconf("SC_PAGE_SIZE") / 2**20)


@contextmanager
def _errors_logged() -> Iterator[list[str]]:
    """The messages that the extender logs as errors meanwhile, shown nowhere else."""
    found: list[str] = []
    logger, handler = logging.getLogger("extender"), logging.Handler(logging.ERROR)
    handler.emit = lambda record: found.append(record.getMessage())  # type: ignore[method-assign]
    propagates = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield found
    finally:
        logger.propagate = propagates
        logger.removeHandler(handler)


def fuzz(bodies: int, seed: int, seconds: float = math.inf) -> dict[str, Any]:
    """Throw so many bodies, or for so long; what was found.

    Raises Wrong, or what the extender raised, with the body, at the first bad answer."""
    with _errors_logged() as faults:
        return _fuzz(bodies, seed, seconds, faults)


def _fuzz(bodies: int, seed: int, seconds: float, faults: list[str]) -> dict[str, Any]:
    random = Random(seed)
    fuzzed = FuzzedExtender(random, faults)
    source, decided, asked = Bodies(random, fuzzed), Counter[str](), Counter[str]()
    memory, began, ends_at = [resident_mib()], time.process_time(), time.monotonic() + seconds
    for number in range(1, bodies + 1):
        fuzzed.now += SECONDS_PER_BODY
        verb = random.choice(VERBS)
        body = source.draw(verb)
        asked[verb] += 1
        try:
            decided[verb] += check(verb, body, fuzzed.call(verb, body))
            if number % STEP == 0:
                fuzzed.live()
        except Exception as fault:
            fault.add_note(f"body {number} with seed {seed}, to /{verb}: {body!r}")
            raise
        if number % SAMPLE == 0:
            memory.append(resident_mib())
            grown = {k: v for k, v in fuzzed.remembered().items() if v > MOST_REMEMBERED}
            if grown:
                raise Wrong(f"after {number} bodies with seed {seed} the planner holds {grown}")
            if time.monotonic() > ends_at:
                break
    return {
        "seed": seed,
        "bodies": asked.total(),
        "by_verb": dict(asked),
        "decided": dict(decided),
        "cpu_seconds": round(time.process_time() - began, 1),
        "resident_mib": {
            "at_the_start": memory[0],
            f"after_{SAMPLE}": memory[min(1, len(memory) - 1)],
            "most": max(memory),
            "at_the_end": memory[-1],
        },
        "remembered": fuzzed.remembered(),
    }


def main() -> None:
    """Print what was found as JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--bodies", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after so long")
    options = parser.parse_args()
    print(json.dumps(fuzz(options.bodies, options.seed, options.seconds), indent=2))


if __name__ == "__main__":
    main()
