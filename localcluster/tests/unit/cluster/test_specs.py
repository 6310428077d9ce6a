"""Nodes as users write them down."""

import pytest

from localcluster.specs import NodeSpec, parse_capacity
from tests.cases import cases


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
