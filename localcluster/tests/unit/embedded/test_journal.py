"""A restarted server restores its state; a change that cannot be written does not happen."""

import resource
from pathlib import Path

import pytest

from localcluster.embedded.apiserver.journal import FileJournal, JournalError, restore
from localcluster.embedded.apiserver.server import Server
from localcluster.embedded.apiserver.store import Change, Expired, Store
from tests.unit.embedded.api_server import WIDGETS, ApiServer, config_map


class TestRestart:
    def test_objects_versions_and_history_come_back(self, tmp_path: Path) -> None:
        path = tmp_path / "journal"
        first = ApiServer()
        store, journal = Store(), FileJournal(path)
        store.record_to(journal)
        for kind, change in first.log:
            assert kind
            if not change.gone:
                store.put(kind, change.now.body)
        store.remove("namespaces", ("", "ns"))
        journal.close()
        again = Store()
        assert restore(path, again)
        for kind in {kind for kind, _ in first.log}:
            assert again.items(kind) == store.items(kind)
            assert [each.now for each in again.since(kind, 1)] == [
                each.now for each in store.since(kind, 1)
            ]
        assert again.version == store.version

    def test_a_line_that_was_cut_is_left_out(self, tmp_path: Path) -> None:
        path = tmp_path / "journal"
        store, journal = Store(), FileJournal(path)
        store.record_to(journal)
        for name in ("a", "b"):
            metadata = {"name": name, "uid": name}
            store.put("things", {"apiVersion": "v1", "kind": "Thing", "metadata": metadata})
        journal.close()
        whole = path.read_bytes()
        path.write_bytes(whole[:-10])
        again = Store()
        restore(path, again)
        assert [each.name[1] for each in again.items("things")] == ["a"]
        assert path.read_bytes() == whole[: whole.index(b"\n") + 1]

    def test_a_restarted_server_continues_at_the_last_version(self, tmp_path: Path) -> None:
        path = tmp_path / "journal"
        first = Server("here", path, [WIDGETS])
        resource = first.objects.kinds.find("test.io", "v1", "widgets")
        assert resource is not None
        before = first.store.version
        first.close()
        second = Server("here", path, [WIDGETS])
        second.close()
        assert second.objects.kinds.find("test.io", "v1", "widgets") == resource
        assert second.store.version == before
        assert [each.name[1] for each in second.store.items("namespaces")] == [
            "default",
            "kube-node-lease",
            "kube-public",
            "kube-system",
        ]

    def test_objects_from_before_the_first_client_are_not_in_the_history(self) -> None:
        server = Server("here")
        assert list(server.store.since("namespaces", server.store.version)) == []
        assert server.store.version > 1


def thing(name: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": name, "uid": name}}


class FullDisk:
    """A disk on which a while nothing more can be written."""

    def __init__(self) -> None:
        self.is_full = False
        self.lines: list[str] = []

    def record(self, kind: str, change: Change) -> None:
        if self.is_full:
            raise JournalError("the change cannot be written: no space left on device")
        self.lines.append(f"{kind} {change.name[1]}")


class TestFullDisk:
    @pytest.fixture
    def server(self) -> ApiServer:
        server = ApiServer()
        self.disk = FullDisk()
        server.store.record_to(self.disk)
        return server

    def test_a_change_that_cannot_be_journaled_is_refused(self, server: ApiServer) -> None:
        server.create("configmaps", config_map("a"))
        before, changes = server.store.version, len(server.log)
        self.disk.is_full = True
        path = "/api/v1/namespaces/ns/configmaps"
        for code, response in (
            server.request("POST", path, config_map("b")),
            server.request(
                "PATCH", f"{path}/a", {"data": {"x": "1"}}, "application/merge-patch+json"
            ),
            server.request("DELETE", f"{path}/a"),
        ):
            assert (code, response["reason"]) == (500, "InternalError")
            assert response["message"].endswith(
                "the change cannot be written: no space left on device"
            )
        assert (server.names("configmaps"), server.store.version, len(server.log)) == (
            ["a", "kube-root-ca.crt"],
            before,
            changes,
        )

    def test_afterwards_writes_succeed(self, server: ApiServer) -> None:
        self.disk.is_full = True
        server.request("POST", "/api/v1/namespaces/ns/configmaps", config_map("a"))
        self.disk.is_full = False
        version = server.store.version
        assert server.create("configmaps", config_map("a"))["metadata"]["resourceVersion"] == str(
            version + 1
        )
        assert [each.now.name[1] for each in server.store.since("configmaps", version)] == ["a"]

    def test_a_full_device_is_reported(self) -> None:
        store, journal = Store(), FileJournal(Path("/dev/full"))
        store.record_to(journal)
        with pytest.raises(JournalError, match="No space left on device"):
            store.put("things", thing("a"))
        journal.close()
        assert store.items("things") == []

    def test_a_line_of_which_a_part_could_be_written_leaves_no_trace(self, tmp_path: Path) -> None:
        path = tmp_path / "journal"
        store, journal = Store(), FileJournal(path)
        store.record_to(journal)
        store.put("things", thing("a"))
        _let_files_grow(path.stat().st_size + 10)
        try:
            with pytest.raises(JournalError, match=r"only 10 of [0-9]+ bytes fit"):
                store.put("things", thing("b"))
        finally:
            _let_files_grow(resource.RLIM_INFINITY)
        store.put("things", thing("c"))
        journal.close()
        again = Store()
        assert restore(path, again)
        assert [each.name[1] for each in again.items("things")] == ["a", "c"]


def _let_files_grow(size: int) -> None:
    """Limit the size of a file; the last bytes that fit are written, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def test_a_restored_store_has_no_more_history_than_one_that_kept_running(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    store, journal = Store(), FileJournal(path)
    store.record_to(journal)
    for _ in range(30):
        store.put("things", thing("a"))
    journal.close()
    again = Store(kept=5)
    restore(path, again)
    with pytest.raises(Expired):
        again.since("things", 1)
    assert len(again.since("things", again.version - 5)) == 5
