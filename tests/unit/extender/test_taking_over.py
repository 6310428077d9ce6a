"""Plans that outlive a process: taken over by the next one, let go by one that does not lead any
more."""

from optimus.kube.pods import Pod
from tests.unit.extender.world import World


def nominated(world: World, **nodes: str) -> list[Pod]:
    names = world.job("j", 1, 1)
    return [
        world.change(world.pods[name], nominated_node=nodes[name.split("-")[1]]) for name in names
    ]


def test_a_new_process_takes_whole_plans_over_from_nominations() -> None:
    world = World({"a": 1, "b": 1})
    nominated(world, ps="b", worker="a")
    assert world.placer.rebuild() == ()
    assert world.wishes() == {"j-ps-0": "b", "j-worker-0": "a"}


def test_nominations_that_there_is_no_room_for_are_told_to_be_cleared() -> None:
    world = World({"a": 1, "b": 1})
    pods = nominated(world, ps="a", worker="a")
    assert list(world.placer.rebuild()) == pods
    assert world.placer.reservations() == 0


def test_a_process_that_no_longer_leads_holds_nothing() -> None:
    world = World({"a": 2})
    world.job("j", 1, 1)
    world.placer.advance()
    world.placer.let_go()
    assert world.placer.reservations() == 0
