"""Nodes that a gang avoids: used only where it does not fit on others."""

import random
from dataclasses import replace

from hypothesis import given

from optimus.placement.capacity import Capacity
from optimus.placement.gang import Placement
from tests.unit.placement.random_gangs import RULE, Case, cases
from tests.unit.properties import examples
from tests.unit.seeded import seeded


def avoiding_cases(rng: random.Random) -> Case:
    gang, nodes, free = cases(rng)
    names = [node.name for node in nodes]
    avoided = frozenset(rng.sample(names, rng.randint(0, len(names))))
    return replace(gang, avoided=avoided), nodes, free


@examples(400)
@given(seeded(avoiding_cases))
def test_avoided_nodes_change_no_answer_but_which_nodes(case: Case) -> None:
    gang, nodes, free = case
    plain = replace(gang, avoided=frozenset())
    without = RULE.place(gang.without_avoided(), Capacity(nodes, free))
    answer, anywhere = (RULE.place(each, Capacity(nodes, free)) for each in (gang, plain))
    if not gang.unbound:
        assert answer == anywhere
    elif isinstance(without, Placement):
        assert answer == without
        assert gang.avoided.isdisjoint(without.nodes.values())
    else:
        assert answer == anywhere, "it goes where it would have gone"
