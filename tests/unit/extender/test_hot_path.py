"""How many files of the product one call of /filter crosses, on the thread that answers it."""

import sys
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import FrameType

import msgspec

from benchmarks.extender_throughput import call, extender, filter_request, pod_bodies
from optimus.kube.pods import decode_pod

ROOT = Path(__file__).parents[3]
MAX_FILES_PLANNED = 8
MAX_FILES_FIRST = 15
MAX_CHANGES_FIRST = 250
"""From one file to another."""


def traced(run: Callable[[], bytes]) -> tuple[bytes, list[str]]:
    """What a call returns, and the file of each function of the product that it calls."""
    folders = tuple(f"{ROOT / name}/" for name in ("extender", "optimus"))
    crossed: list[str] = []

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folders):
            crossed.append(str(Path(frame.f_code.co_filename).relative_to(ROOT)))

    sys.setprofile(record)
    try:
        result = run()
    finally:
        sys.setprofile(None)
    return result, crossed


def test_filter_for_a_planned_pod_and_for_the_first_of_a_gang_cross_few_files() -> None:
    app, parts, names = extender(nodes=10)
    planner = parts.planner

    def plan_beside() -> None:
        thread = threading.Thread(target=planner.advance)
        thread.start()
        thread.join()

    vars(planner)["_plan_now"] = plan_beside
    parts.state.leads = True
    for job, ps, workers in (("before", 1, 1), ("job", 4, 6)):
        bodies = pod_bodies(job, ps, workers, resource_version="1")
        for body in bodies:
            parts.handlers.pod(None, decode_pod(body))
        request = filter_request(bodies[0], names)
        answer, crossed = traced(lambda: call(app, request))  # noqa: B023 - called at once
    assert len(msgspec.json.decode(answer)["NodeNames"]) == 1
    files = sorted(set(crossed))
    assert len(files) <= MAX_FILES_FIRST, f"{len(files)} files: {', '.join(files)}"
    changes = sum(before != after for before, after in pairwise(crossed))
    assert changes <= MAX_CHANGES_FIRST
    request = filter_request(bodies[1], names)
    answer, crossed = traced(lambda: call(app, request))
    replica = decode_pod(bodies[1]).replica
    held = None if replica is None else parts.state.reservations.ledger.get(replica)
    assert held is not None
    assert msgspec.json.decode(answer)["NodeNames"] == [held.node]
    files = sorted(set(crossed))
    assert len(files) <= MAX_FILES_PLANNED, f"{len(files)} files: {', '.join(files)}"
