"""What pods refer to on the API server: config maps, claims, tokens; and the events of pods."""

from typing import Any

import pytest

from localcluster.node.cluster_objects import ClusterObjects
from localcluster.node.pod_spec import Unresolved
from localcluster.node.probes import Threshold
from tests.cases import cases
from tests.unit.node.fake_api import FakeApi
from tests.unit.node.pods import START, pod


def test_a_token_is_requested_once_and_renewed_after_four_fifths_of_its_life() -> None:
    api, now = FakeApi(), [START]
    objects = ClusterObjects(api, clock=lambda: now[0])
    assert objects.token(pod()) == "token-1"
    now[0] = START + 2879
    assert objects.token(pod()) == "token-1"
    now[0] = START + 2881
    assert objects.token(pod()) == "token-2"
    assert api.of("create")[0][0] == "/api/v1/namespaces/ns/serviceaccounts/default/token"


CLAIM = "/api/v1/namespaces/ns/persistentvolumeclaims/c"


@cases(
    ("objects", "sentence"),
    {
        "no claim": ({}, 'persistentvolumeclaim "c" not found'),
        "a claim without a volume": ({CLAIM: {"spec": {}}}, "is not bound"),
        "pending": (
            {CLAIM: {"spec": {"volumeName": "v"}, "status": {"phase": "Pending"}}},
            "is not bound",
        ),
        "a volume that is gone": (
            {CLAIM: {"spec": {"volumeName": "v"}, "status": {"phase": "Bound"}}},
            'persistentvolume "v" not found',
        ),
    },
)
def test_a_claim_without_a_volume_is_reported(
    objects: dict[str, dict[str, Any]], sentence: str
) -> None:
    with pytest.raises(Unresolved, match=sentence):
        ClusterObjects(FakeApi(objects)).volume_of_claim("ns", "c")


def test_config_maps_are_texts_by_key() -> None:
    path = "/api/v1/namespaces/ns/configmaps/c"
    objects = ClusterObjects(FakeApi({path: {"data": {"a": "x"}}}))
    assert objects.config_map("ns", "c") == {"a": "x"}
    with pytest.raises(Unresolved, match='configmap "no" not found'):
        objects.config_map("ns", "no")


@cases(
    ("results", "states"),
    {
        "a verdict is reported once": ("++", "+"),
        "a failure needs two in a row": ("---", "-"),
        "single failures are overlooked": ("-+-+", "+"),
        "it turns and turns back": ("+--+", "+-+"),
    },
)
def test_thresholds(results: str, states: str) -> None:
    threshold = Threshold(success=1, failure=2)
    turned = [each for each in results if threshold.count(healthy=each == "+")]
    assert "".join(turned) == states
