"""Plans at a change of leaders: adopted by the new one, released by the old one."""

from optimus.kube.pods import Pod
from tests.unit.extender.fake_cluster import FakeCluster, reasons


def nominated(cluster: FakeCluster, **nodes: str) -> list[Pod]:
    names = cluster.job("j", 1, 1)
    return [
        cluster.change(cluster.pods[name], nominated_node=nodes[name.split("-")[1]])
        for name in names
    ]


def test_a_new_process_adopts_the_plans_of_complete_gangs_from_nominations() -> None:
    cluster = FakeCluster({"a": 1, "b": 1})
    nominated(cluster, ps="b", worker="a")
    assert cluster.adoption.adopt_nominations() == ()
    assert cluster.planned_nodes() == {"j-ps-0": "b", "j-worker-0": "a"}


def test_nominations_without_room_are_returned_to_be_cleared() -> None:
    cluster = FakeCluster({"a": 1, "b": 1})
    pods = nominated(cluster, ps="a", worker="a")
    assert list(cluster.adoption.adopt_nominations()) == pods
    assert cluster.state.reservation_count() == 0


def test_room_for_a_rescale_is_reserved_beside_the_nominations_of_the_last_leader() -> None:
    cluster = NotLeading({"a": 2, "b": 2}, leads=False)
    cluster.spec("r", 1, 1)
    cluster.rescale("r", 1, 1, leaving=False)
    for name in cluster.job("j", 1, 1):
        cluster.change(cluster.pods[name], nominated_node="a")
    assert cluster.adoption.adopt_nominations() == ()
    assert cluster.planned_nodes() == {"j-ps-0": "a", "j-worker-0": "a"}
    assert [cluster.place(name) for name in cluster.job("r", 1, 1)] == ["b", "b"]


def test_no_gang_takes_what_the_last_leader_nominated_for_another() -> None:
    cluster = NotLeading({"a": 2}, leads=False)
    for name in cluster.job("theirs", 1, 1):
        cluster.change(cluster.pods[name], nominated_node="a")
    (mine,) = cluster.job("mine", 0, 1)
    assert reasons(cluster, mine, "a") == {"job ns/mine has not been planned yet"}
    cluster.lead()
    assert reasons(cluster, mine, "a") == {"job ns/mine (0 PS + 1 worker) does not fit as a whole"}
    assert cluster.planned_nodes() == {"theirs-ps-0": "a", "theirs-worker-0": "a"}


class NotLeading(FakeCluster):
    """The planner's thread plans only once the nominations are adopted, as the real one does."""

    def plan(self) -> None:
        if self.state.leads:
            self.planner.advance()

    def lead(self) -> None:
        self.adoption.adopt_nominations()
        self.planner.advance()


def test_a_gang_that_is_bound_in_part_keeps_its_room_although_its_nominations_are_gone() -> None:
    cluster = NotLeading({"a": 2}, leads=False)
    bound, waits = cluster.job("part", 1, 1)
    cluster.bind(bound, "a")
    (urgent,) = cluster.job("urgent", 0, 1, priority=1000)
    assert reasons(cluster, urgent) == {"job ns/urgent has not been planned yet"}
    cluster.lead()
    assert reasons(cluster, urgent) == {"job ns/urgent (0 PS + 1 worker) does not fit as a whole"}
    assert cluster.place(waits) == "a"


def test_an_answer_of_an_earlier_term_gives_way_to_the_nomination_of_the_leader_between() -> None:
    cluster = FakeCluster({"a": 2, "b": 2})
    names = cluster.job("j", 1, 1)
    assert cluster.ask(names[0]).kept == ("a",)
    cluster.adoption.release_all()
    for name in names:
        cluster.change(cluster.pods[name], nominated_node="b")
    assert cluster.adoption.adopt_nominations() == ()
    assert cluster.planned_nodes() == dict.fromkeys(names, "b")
    assert [cluster.place(name) for name in names] == ["b", "b"]
