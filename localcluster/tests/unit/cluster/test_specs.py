"""Nodes as users write them down."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.specs import NodeSpec, Taint, numbered_nodes, parse_capacity
from tests.cases import cases

quantities = st.from_regex(r"[0-9]{1,4}(m|k|Ki|Mi|Gi)?", fullmatch=True)
words = st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True)
taints = st.builds(
    Taint, words, words, st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute"])
)
nodes = st.builds(
    NodeSpec,
    words,
    st.dictionaries(words, quantities, max_size=3),
    st.dictionaries(words, words, max_size=3),
    st.lists(taints, max_size=3).map(tuple),
)


@given(nodes)
def test_a_node_survives_being_written_and_read(node: NodeSpec) -> None:
    assert msgspec.convert(msgspec.to_builtins(node), NodeSpec) == node


def test_capacity_that_a_node_does_not_state_has_a_default() -> None:
    assert NodeSpec("a", {"cpu": "2"}).capacity == {"cpu": "2", "memory": "8Gi", "pods": "110"}


@cases(
    ("text", "capacity"),
    {
        "nothing is no capacity": ("", {}),
        "one resource": ("cpu=4", {"cpu": "4"}),
        "blanks and a comma too many": (
            " cpu=500m , memory=8Gi,",
            {"cpu": "500m", "memory": "8Gi"},
        ),
        "a resource with a domain": ("nvidia.com/gpu=2", {"nvidia.com/gpu": "2"}),
    },
)
def test_a_capacity_on_the_command_line(text: str, capacity: dict[str, str]) -> None:
    assert parse_capacity(text) == capacity


@cases(
    ("text", "sentence"),
    {
        "no equals sign": ("cpu", "'cpu' is no capacity; write resource=quantity"),
        "no quantity": ("cpu=", "'cpu=' is no capacity"),
        "no resource": ("=4", "'=4' is no capacity"),
        "a word for a quantity": ("cpu=four", "cpu: 'four' is not a quantity"),
        "less than nothing": ("cpu=-1", "cpu: '-1' is negative"),
        "a suffix that Kubernetes does not know": ("memory=8GB", "memory: '8GB' is not a quantity"),
    },
)
def test_a_wrong_capacity_is_refused_with_the_part_that_is_wrong(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        parse_capacity(text)


@pytest.mark.parametrize("name", ["", "Node", "a_b", "-a", "a.", "x" * 64])
def test_a_name_that_the_api_server_would_refuse_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no node name"):
        NodeSpec(name)


def test_an_unknown_taint_effect_is_refused_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="none of NoSchedule, PreferNoSchedule, NoExecute"):
        Taint("a", effect="Never")


def test_numbered_nodes_are_equal_and_have_names_of_their_own() -> None:
    first, second = numbered_nodes(2, {"cpu": "1"})
    assert (first.name, second.name) == ("node-1", "node-2")
    assert first.capacity == second.capacity
