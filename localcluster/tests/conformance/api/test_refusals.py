"""Refused requests: what a program or a person that made a mistake reads.

A mistake that a stand-in lets pass is found by the first real cluster.
"""

import pytest

from tests.conformance.api.conftest import refusal_message
from tests.conformance.api_calls import APPLY, JSON_PATCH, MERGE, ApiCalls, Json, config_map

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
MAPS = "/api/v1/namespaces/{ns}/configmaps"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param(
            {"deletionTimestamp": "2026-01-01T00:00:00Z"},
            'metadata.deletionTimestamp: Invalid value: "2026-01-01T00:00:00Z": field is immutable',
            id="a deletion that nobody asked for",
        ),
    ],
)
def test_metadata_that_no_object_may_have(
    api: ApiCalls, populated: str, metadata: Json, message: str
) -> None:
    path = f"{MAPS.format(ns=populated)}/c"
    found = refusal_message(api, 422, f"PATCH {path}", {"metadata": metadata}, MERGE)
    assert found == f'ConfigMap "c" is invalid: {message}'


def test_another_objects_name_or_namespace_in_a_body_is_refused(
    api: ApiCalls, populated: str
) -> None:
    path = f"{MAPS.format(ns=populated)}/c"
    body = {**config_map("c"), "apiVersion": "v1", "kind": "ConfigMap"}
    elsewhere = (
        "the namespace of the provided object does not match the namespace sent on the request"
    )
    for change in ({"metadata": {"namespace": "x"}}, {"metadata": {"name": "c", "namespace": "x"}}):
        assert refusal_message(api, 400, f"PATCH {path}", change, MERGE) == elsewhere
    named = "the name of the object (d) does not match the name on the URL (c)"
    body["metadata"] = {"name": "d"}
    assert refusal_message(api, 400, f"PUT {path}", body) == named
    assert refusal_message(api, 400, f"PATCH {path}", body, APPLY, fieldManager="me") == named
    body["metadata"] = {}
    missing = "the name of the object (c based on URL) was undeterminable: name must be provided"
    assert refusal_message(api, 400, f"PUT {path}", body) == missing


def test_version_zero_stands_for_any(api: ApiCalls, populated: str) -> None:
    path = f"{MAPS.format(ns=populated)}/c"
    patched = api.request(
        "PATCH", path, {"metadata": {"resourceVersion": "0"}, "data": {"a": "2"}}, MERGE
    )
    assert patched["data"] == {"a": "2"}


@pytest.mark.parametrize("kind", [MERGE, JSON_PATCH])
def test_a_patch_cannot_make_a_number_of_a_word(api: ApiCalls, populated: str, kind: str) -> None:
    path = f"{MAPS.format(ns=populated)}/c"
    body = (
        {"data": {"a": 1}} if kind == MERGE else [{"op": "replace", "path": "/data/a", "value": 1}]
    )
    assert "json: cannot unmarshal number into Go struct field" in refusal_message(
        api, 422, f"PATCH {path}", body, kind
    )


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        pytest.param(
            {"renewTime": "2026-01-01T00:00:00Z"},
            'parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": ',
            id="no microseconds",
        ),
        pytest.param(
            {"renewTime": "soon"},
            'parsing time "soon" as "2006-01-02T15:04:05.000000Z07:00": ',
            id="no instant",
        ),
    ],
)
def test_a_lease_without_microseconds_is_refused(
    api: ApiCalls, namespace: str, spec: Json, message: str
) -> None:
    body = {"metadata": {"name": "l"}, "spec": spec}
    found = refusal_message(api, 400, f"POST {LEASES.format(ns=namespace)}", body)
    assert found.startswith(f'Lease in version "v1" cannot be handled as a Lease: {message}')


def test_a_lease_is_made_by_replacing_what_is_not_there(api: ApiCalls, namespace: str) -> None:
    path = f"{LEASES.format(ns=namespace)}/l"
    assert api.request("PUT", path, {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}})[
        "spec"
    ]
    assert api.get(path)["spec"] == {"holderIdentity": "me"}


def test_the_namespaces_that_a_cluster_begins_with_stay(api: ApiCalls) -> None:
    message = refusal_message(api, 403, "DELETE /api/v1/namespaces/default")
    assert message == 'namespaces "default" is forbidden: this namespace may not be deleted'


def test_all_namespaces_at_once_cannot_be_deleted(api: ApiCalls) -> None:
    message = refusal_message(api, 405, "DELETE /api/v1/namespaces", labelSelector="there=none")
    assert message == "the server does not allow this method on the requested resource"


def test_a_body_of_more_than_three_megabytes_is_not_read(api: ApiCalls, populated: str) -> None:
    path = f"{MAPS.format(ns=populated)}/c"
    message = refusal_message(api, 413, f"PATCH {path}", {"data": {"a": "x" * 3_200_000}}, MERGE)
    assert message == "Request entity too large: limit is 3145728"
