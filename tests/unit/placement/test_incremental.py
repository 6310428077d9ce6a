"""Further tasks of placed jobs, one by one."""

from optimus.jobs import ReplicaSpec, Role
from optimus.nodes import Node
from optimus.placement.capacity import Capacity
from optimus.placement.gang import Assignment, FixedAssignment, Server
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


def test_an_own_server_that_is_full_gives_way_to_the_next_and_then_to_other_nodes() -> None:
    capacity = capacity_of(2, 5, 3)
    before = Assignment((Server(0, 0, 1), Server(1, 0, 4)))
    growing = IncrementalPlacement(before, capacity, TightestFit(capacity))

    assert growing.add(TWO_CPUS, column=1, count=2) == 2
    assert capacity.free == [(0,), (3,), (3,)]
    assert growing.add(TWO_CPUS, column=1, count=2) == 2

    assert growing.assignment.servers == (Server(0, 0, 2), Server(1, 0, 6), Server(2, 0, 1))
    assert capacity.free == [(0,), (1,), (1,)]
    assert growing.add(TWO_CPUS, column=1, count=1) == 0


def test_fixed_replicas_of_a_growing_job_stay() -> None:
    capacity = capacity_of(9)
    fixed = (FixedAssignment(Role.CHIEF, 0, 0),)
    growing = IncrementalPlacement(Assignment((), fixed), capacity, TightestFit(capacity))

    assert growing.add(ONE_CPU, column=0, count=0) == 0
    assert growing.add(ONE_CPU, column=0, count=1) == 1

    assert growing.assignment == Assignment((Server(0, 1, 0),), fixed)
