"""When a custom resource counts as served."""

from typing import Any

from localcluster.bootstrap import _established
from tests.cases import cases


@cases(
    ("crd", "served"),
    {
        "an object without a status": ({}, False),
        "one that was created this instant": ({"status": {"conditions": None}}, False),
        "only named": (
            {"status": {"conditions": [{"type": "NamesAccepted", "status": "True"}]}},
            False,
        ),
        "not yet": (
            {"status": {"conditions": [{"type": "Established", "status": "False"}]}},
            False,
        ),
        "established": (
            {"status": {"conditions": [{"type": "Established", "status": "True"}]}},
            True,
        ),
    },
)
def test_a_custom_resource_is_served_once_it_is_established(
    crd: dict[str, Any], served: bool
) -> None:
    assert _established(crd) is served
