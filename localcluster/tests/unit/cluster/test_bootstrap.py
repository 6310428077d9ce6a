"""When a custom resource counts as served."""

from typing import Any

import pytest

from localcluster.bootstrap import _established


@pytest.mark.parametrize(
    ("crd", "served"),
    [
        pytest.param({}, False, id="an object without a status"),
        pytest.param(
            {"status": {"conditions": None}}, False, id="one that was created this instant"
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "NamesAccepted", "status": "True"}]}},
            False,
            id="only named",
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Established", "status": "False"}]}},
            False,
            id="not yet",
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Established", "status": "True"}]}},
            True,
            id="established",
        ),
    ],
)
def test_a_custom_resource_is_served_once_it_is_established(
    crd: dict[str, Any], served: bool
) -> None:
    assert _established(crd) is served
