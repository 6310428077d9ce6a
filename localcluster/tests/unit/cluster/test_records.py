"""What a supervisor writes of its cluster, and what is read of it when not all could be written."""

import json
from pathlib import Path

from localcluster.paths import ClusterPaths
from localcluster.supervisor.policy import Lifecycle
from localcluster.supervisor.status import StatusWriter, read_events, read_status


def test_events_are_read_in_their_order_and_only_the_last(tmp_path: Path) -> None:
    paths = ClusterPaths(tmp_path)
    records = StatusWriter(paths, None)
    for name in ("a", "b", "c"):
        records.event(name, "started", "pid 1")
    assert [(each["subject"], each["event"], each["detail"]) for each in read_events(paths, 2)] == [
        ("b", "started", "pid 1"),
        ("c", "started", "pid 1"),
    ]


def test_a_line_that_was_cut_is_left_out(tmp_path: Path) -> None:
    paths = ClusterPaths(tmp_path)
    whole = json.dumps({"at": "now", "subject": "a", "event": "died", "detail": ""})
    paths.events.write_text(f"{whole}\n{whole[:20]}{whole}\n7\n{whole}\n{whole[:9]}")
    assert [each["subject"] for each in read_events(paths, 10)] == ["a", "a"]


def test_what_cannot_be_written_does_not_end_the_cluster(tmp_path: Path) -> None:
    paths = ClusterPaths(tmp_path / "there-is-no-room-for-it")
    records = StatusWriter(paths, None)
    records.component("etcd", Lifecycle(), None)
    records.cluster("running")
    assert read_status(paths) is None
    paths.root.mkdir()
    records.component("etcd", Lifecycle(), None)
    status = read_status(paths)
    assert status is not None
    assert status.phase == "running"
