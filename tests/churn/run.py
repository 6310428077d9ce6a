"""One run: users act, invariants are checked, processes are killed, and all comes to rest."""

import random
import time
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from tests.churn.invariants import Invariants
from tests.churn.users import Users
from tests.harness.api import CORE, OPTIMUS, in_namespace
from tests.harness.process_killer import PROCESSES, ProcessKiller
from tests.harness.scenario import Scenario

_USAGE_SECONDS: Final = 5.0
_REST_SECONDS: Final = 240.0
_RESCALING: Final = ("Suspending", "Resizing", "Starting")


class Length(NamedTuple):
    """How long a run is, and how fast things happen."""

    seconds: float
    action_seconds: float = 3.0
    """Seconds between two actions, on average."""
    kill_seconds: float = 0.0
    """Seconds between two kills, on average; 0: nothing is killed."""
    actions: int = 0
    """At least so many are done, however long that takes a busy machine."""


def run(scenario: Scenario, seed: int, length: Length) -> dict[str, Any]:
    """Act and check, then come to rest. ``faults`` are sentences; there must be none."""
    generator = random.Random(seed)
    nodes = [
        each["metadata"]["name"]
        for each in scenario.api.items(f"{CORE}/nodes")
        if each["metadata"]["name"].startswith("train-")
    ]
    users = Users(scenario, generator, nodes)
    invariants = Invariants(scenario, users)
    began = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    kills = _act(users, invariants, scenario, generator, length)
    users.leave()
    faults = {**invariants.faults, **dict.fromkeys(_unrest(scenario, invariants), length.seconds)}
    others = [*scenario.optimus.defects(began), *(() if kills else invariants.growth())]
    return {
        "seed": seed,
        "seconds": length.seconds,
        "checks": invariants.checks,
        "actions": dict(users.done.most_common()),
        "rescales": len(invariants.rescales),
        "kills": kills,
        "longest outage beyond a job's own start, s": round(invariants.outages.longest_seconds, 1),
        "usage (first, median, last)": invariants.usage(),
        "faults": {**faults, **dict.fromkeys(others, length.seconds)},
    }


def _act(
    users: Users,
    invariants: Invariants,
    scenario: Scenario,
    generator: random.Random,
    length: Length,
) -> int:
    """Do all this until the time is over; how often a process was killed."""
    began = now = time.monotonic()
    next_action, next_usage, kills = now, now + _USAGE_SECONDS, 0
    next_kill = now + _pause(generator, length.kill_seconds)
    while now < began + length.seconds or users.done.total() < length.actions:
        if now >= next_action:
            users.act()
            next_action = now + _pause(generator, length.action_seconds)
        if now >= next_kill:
            kills += _kill(scenario, generator.choice(sorted(PROCESSES)))
            invariants.outages.killed(time.monotonic())
            next_kill = time.monotonic() + _pause(generator, length.kill_seconds)
        invariants.check()
        if now >= next_usage and not length.kill_seconds:
            invariants.measure()
            next_usage = now + _USAGE_SECONDS
        time.sleep(max(now + 1.0 - time.monotonic(), 0.0))
        now = time.monotonic()
    return kills


def _pause(generator: random.Random, mean_seconds: float) -> float:
    return generator.expovariate(1 / mean_seconds) if mean_seconds else float("inf")


def _kill(scenario: Scenario, process: str) -> bool:
    """Kill it; the kubelet starts it again. Whether it ran: one that is just being started is
    left."""
    try:
        ProcessKiller(scenario, process).kill_once()
    except AssertionError:
        return False
    return True


def _unrest(scenario: Scenario, invariants: Invariants) -> list[str]:
    """What does not come to rest once nobody acts any more: rescales that go on, and gangs bound
    in part."""
    deadline = time.monotonic() + _REST_SECONDS
    path = in_namespace(OPTIMUS, scenario.namespace, "trainingprofiles")
    while True:
        invariants.check()
        statuses = {
            each["metadata"]["name"]: each.get("status") or {} for each in scenario.api.items(path)
        }
        busy = [
            f"{name} is still {status['phase']} after {_REST_SECONDS:.0f} s without a change"
            for name, status in statuses.items()
            if status.get("phase") in _RESCALING
        ]
        if not busy and not invariants.unfinished:
            return []
        if time.monotonic() > deadline:
            return [*busy, *invariants.unfinished]
        time.sleep(1.0)
