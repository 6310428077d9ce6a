"""Further tasks of placed jobs, one by one."""

from optimus.jobs import ReplicaSpec
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Assignment, Server
from optimus.placement.incremental import IncrementalPlacement, TightestFit
from optimus.resources import Resources

ONE_CPU = ReplicaSpec(Resources(cpu=1))
TWO_CPUS = ReplicaSpec(Resources(cpu=2))


def capacity_of(*cpus: int) -> Capacity:
    nodes = [Node(f"n{number}", Resources(cpu=each)) for number, each in enumerate(cpus)]
    return Capacity(nodes, {node.name: node.allocatable for node in nodes})


def test_own_servers_come_first_then_the_node_that_is_filled_up_best() -> None:
    capacity = capacity_of(9, 3, 2)
    growing = IncrementalPlacement(Assignment((Server(1, 0, 1),)), capacity, TightestFit(capacity))

    assert growing.add(TWO_CPUS, column=1, count=3) == 3

    assert growing.assignment.servers == (Server(1, 0, 2), Server(2, 0, 1), Server(0, 0, 1))
    assert capacity.free == [(7,), (1,), (0,)]


def test_what_has_no_room_is_not_added() -> None:
    capacity = capacity_of(3)
    growing = IncrementalPlacement(Assignment(()), capacity, TightestFit(capacity))

    assert growing.add(TWO_CPUS, column=0, count=2) == 1
    assert growing.add(TWO_CPUS, column=1, count=1) == 0
    assert growing.add(ReplicaSpec(Resources(gpu=1)), column=1, count=1) == 0
    assert growing.add(ONE_CPU, column=1, count=1) == 1


def test_a_task_that_fits_nowhere_fits_again_once_something_is_given_back() -> None:
    capacity = capacity_of(1)
    tightest = TightestFit(capacity)
    task = tightest.task(ONE_CPU)
    assert task is not None
    assert tightest.row(task) == 0
    capacity.take(0, (1,))
    assert tightest.row(task) is None
    assert not tightest.any_fits_on(capacity)

    capacity.give_back(0, (1,))
    tightest.given_back()

    assert tightest.row(task) == 0
    assert tightest.any_fits_on(capacity)


def test_the_tightest_node_is_searched_again_when_others_have_been_placed() -> None:
    capacity = capacity_of(4, 3)
    tightest = TightestFit(capacity)
    task = tightest.task(ONE_CPU)
    assert task is not None
    assert tightest.row(task) == 1
    capacity.take(0, (2,))
    assert tightest.row(task) == 1

    tightest.reset(capacity)

    assert tightest.row(task) == 0


def test_equal_specs_are_one_task() -> None:
    tightest = TightestFit(capacity_of(1))

    assert tightest.task(ONE_CPU) is tightest.task(ReplicaSpec(Resources(cpu=1)))
    assert tightest.task(ONE_CPU) is not tightest.task(TWO_CPUS)
