"""A new leader completes what the last one began, before anything else."""

from tests.unit.extender.fake_cluster import FakeCluster, reasons


class NotLeading(FakeCluster):
    """The planner's thread plans only once this process leads, as the real one does."""

    def plan(self) -> None:
        if self.state.leads:
            self.planner.advance()

    def lead(self) -> None:
        self.leading.begin()
        self.planner.advance()


def test_a_gang_that_is_bound_in_part_keeps_its_room() -> None:
    cluster = NotLeading({"a": 2}, leads=False)
    bound, waits = cluster.job("part", 1, 1)
    cluster.bind(bound, "a")
    (urgent,) = cluster.job("urgent", 0, 1, priority=1000)
    assert reasons(cluster, urgent) == {"job ns/urgent has not been planned yet"}
    cluster.lead()
    assert reasons(cluster, urgent) == {"job ns/urgent (0 PS + 1 worker) does not fit as a whole"}
    assert cluster.place(waits) == "a"
