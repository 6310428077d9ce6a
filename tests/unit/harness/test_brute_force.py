"""The oracle itself, on cases small enough to be solved by hand."""

import pytest

from tests.harness.brute_force import (
    Demand,
    Observed,
    even_spreads,
    fewest_servers,
    violations,
    violations_beside_bound,
)

ONE_CPU = {"cpu": 1000}
Free = dict[str, dict[str, int]]


def cpus(*amounts: int) -> Free:
    return {f"n{number}": {"cpu": cpu} for number, cpu in enumerate(amounts, start=1)}


def demand(ps: int, workers: int, **fixed: int) -> Demand:
    return Demand(
        ps, workers, ONE_CPU, ONE_CPU, {role: (count, ONE_CPU) for role, count in fixed.items()}
    )


@pytest.mark.parametrize(
    ("wanted", "free", "servers"),
    [
        pytest.param(
            demand(1, 1), cpus(2000), 1, id="one server with just enough room holds the job"
        ),
        pytest.param(demand(1, 1), cpus(1000, 1000), 2, id="no server holds both: two are needed"),
        pytest.param(
            demand(2, 2),
            cpus(3000, 3000),
            2,
            id="two of each over two servers is one of each on each",
        ),
        pytest.param(
            demand(2, 2), cpus(3000, 1000), None, id="the room is enough in sum but not evenly"
        ),
        pytest.param(demand(3, 3), cpus(4000, 4000, 4000), 2, id="odd counts may differ by one"),
        pytest.param(
            demand(3, 3), cpus(3000, 3000), 2, id="the server with more PSs may have fewer workers"
        ),
        pytest.param(
            demand(1, 3), cpus(2000, 1000, 1000), 3, id="a server without a PS is still even"
        ),
        pytest.param(
            demand(1, 1),
            cpus(500, 2000, 500),
            1,
            id="the server with room is found wherever it stands",
        ),
        pytest.param(
            demand(1, 1, scheduler=1), cpus(2000), None, id="a fixed pod needs a place too"
        ),
        pytest.param(
            demand(1, 1, scheduler=1), cpus(2000, 1000), 1, id="which may be one more server"
        ),
        pytest.param(demand(2, 2), {}, None, id="no node, no place"),
    ],
)
def test_the_fewest_servers(wanted: Demand, free: Free, servers: int | None) -> None:
    assert fewest_servers(wanted, free) == servers


def test_every_even_deal_is_tried_and_no_other() -> None:
    deals = list(even_spreads(demand(1, 2), cpus(9000, 9000), 2))
    assert sorted(map(str, deals)) == [
        "{'n1': (0, 1), 'n2': (1, 1)}",
        "{'n1': (1, 1), 'n2': (0, 1)}",
    ]


def test_every_resource_counts() -> None:
    hungry = Demand(1, 1, {"cpu": 1, "pods": 1}, {"cpu": 1, "pods": 1})
    assert fewest_servers(hungry, {"a": {"cpu": 9, "pods": 1}, "b": {"cpu": 9, "pods": 1}}) == 2


@pytest.mark.parametrize(
    ("observed", "said"),
    [
        pytest.param(
            {"n1": {"ps": 1, "worker": 1}, "n2": {"ps": 1, "worker": 1}},
            "",
            id="even, on the fewest",
        ),
        pytest.param(
            {"n1": {"ps": 1, "worker": 1}, "n2": {"ps": 1}, "n3": {"worker": 1}},
            "lies on 3 servers, 2 hold it",
            id="one server too many",
        ),
        pytest.param(
            {"n1": {"ps": 2}, "n2": {"worker": 2}},
            "differ by more than one",
            id="PSs and workers apart",
        ),
        pytest.param(
            {"n1": {"ps": 1, "worker": 1}}, "1 ps pods are bound, 2 were asked for", id="half of it"
        ),
        pytest.param(
            {"elsewhere": {"ps": 2, "worker": 2}}, "none of the job may go", id="a node of others"
        ),
        pytest.param(
            {"n1": {"ps": 2, "worker": 2}},
            "n1 holds more than it has room for",
            id="too much on one",
        ),
    ],
)
def test_what_is_said_of_a_placement(observed: Observed, said: str) -> None:
    found = " / ".join(violations(demand(2, 2), cpus(3000, 3000, 3000), observed))
    assert said in found if said else not found


@pytest.mark.parametrize(
    ("free", "said"),
    [
        pytest.param(cpus(3000, 3000), "lies apart", id="beside the others there was room"),
        pytest.param(cpus(2000, 1000), "", id="beside the others there was none"),
    ],
)
def test_a_fixed_pod_lies_beside_the_others_where_it_can(free: Free, said: str) -> None:
    observed = {"n1": {"ps": 1, "worker": 1}, "n2": {"scheduler": 1}}
    found = " / ".join(violations(demand(1, 1, scheduler=1), free, observed))
    assert said in found if said else not found


@pytest.mark.parametrize(
    ("observed", "said"),
    [
        pytest.param(
            {"n1": {"ps": 2, "worker": 6}, **{key: {"ps": 1, "worker": 7} for key in ("n2", "n3")}},
            "",
            id="an even spread",
        ),
        pytest.param(
            {**{key: {"ps": 2, "worker": 8} for key in ("n1", "n2")}, "n3": {"worker": 4}},
            "",
            id="an uneven one with less transfer time",
        ),
        pytest.param(
            {"n1": {"ps": 4, "worker": 5}, "n2": {"worker": 10}, "n3": {"worker": 5}},
            "transfer takes 3.75, spread evenly 3.5",
            id="an uneven one with more transfer time",
        ),
        pytest.param(
            {key: {"ps": 1, "worker": 5} for key in ("n1", "n2", "n3", "n4")},
            "lies on 4 servers, 3 hold it",
            id="one server too many",
        ),
    ],
)
def test_a_gang_planned_beside_bound_pods_may_be_uneven_but_not_slower(
    observed: Observed, said: str
) -> None:
    free = cpus(10000, 10000, 10000, 10000)
    found = " / ".join(violations_beside_bound(demand(4, 20), free, observed))
    assert said in found if said else not found
