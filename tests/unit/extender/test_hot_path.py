"""How many files of the product one call of /filter touches."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import msgspec

from benchmarks.extender_throughput import call, extender, filter_request, pod_bodies
from optimus.kube.pods import decode_pod

ROOT = Path(__file__).parents[3]
MAX_FILES = 8


def traced(run: Callable[[], bytes]) -> tuple[bytes, list[str]]:
    """What a call returns, and the files of the extender and of optimus whose functions it runs."""
    folders = tuple(f"{ROOT / name}/" for name in ("extender", "optimus"))
    found: set[str] = set()

    def record(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(folders):
            found.add(str(Path(frame.f_code.co_filename).relative_to(ROOT)))

    sys.setprofile(record)
    try:
        result = run()
    finally:
        sys.setprofile(None)
    return result, sorted(found)


def test_filter_for_a_planned_pod_touches_few_files() -> None:
    app, parts, names = extender(nodes=10)
    first, second, *_ = bodies = pod_bodies("job", 4, 6, resource_version="1")
    for body in bodies:
        parts.handlers.pod(None, decode_pod(body))
    parts.planner.advance()
    planned = {each.pod.name: each.node for each in parts.nominations.pending_nominations()}
    call(app, filter_request(first, names))
    request = filter_request(second, names)
    answer, files = traced(lambda: call(app, request))
    assert msgspec.json.decode(answer)["NodeNames"] == [planned["job-ps-1"]]
    assert len(files) <= MAX_FILES, f"{len(files)} files, not {MAX_FILES}: {', '.join(files)}"
