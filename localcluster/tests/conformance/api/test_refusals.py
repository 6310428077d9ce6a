"""What is refused, and in which words: what a program or a person who made a mistake reads.

A mistake that a double lets pass is found by the first real cluster.
"""

from typing import Any

import pytest

from tests.conformance.api.conftest import GROUP, PLURAL, VERSION, Things, refusal_message
from tests.conformance.api.test_refused_pods import KEY
from tests.conformance.api_calls import APPLY, JSON_PATCH, MERGE, ApiCalls, Json, config_map

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"
MAPS = "/api/v1/namespaces/{ns}/configmaps"
OPTIONS = '{}Options.meta.k8s.io "" is invalid: {}'
NO_DRY_RUN = 'dryRun: Unsupported value: ["all"]: supported values: "All"'


@pytest.mark.parametrize(
    ("method", "query", "message"),
    [
        pytest.param(
            "POST",
            {"dryRun": "all"},
            OPTIONS.format("Create", NO_DRY_RUN),
            id="a word that is not All",
        ),
        pytest.param(
            "PUT", {"dryRun": "all"}, OPTIONS.format("Update", NO_DRY_RUN), id="of a replacement"
        ),
        pytest.param(
            "PATCH", {"dryRun": "all"}, OPTIONS.format("Patch", NO_DRY_RUN), id="of a patch"
        ),
        pytest.param(
            "DELETE", {"dryRun": "all"}, OPTIONS.format("Delete", NO_DRY_RUN), id="of a deletion"
        ),
        pytest.param(
            "POST",
            {"fieldValidation": "strict"},
            OPTIONS.format(
                "Create",
                (
                    'fieldValidation: Unsupported value: "strict": supported values: "", "Ignore", '
                    '"Strict", "Warn"'
                ),
            ),
            id="a check of fields that is none",
        ),
        pytest.param(
            "PATCH",
            {"fieldManager": "m" * 129},
            OPTIONS.format("Patch", "fieldManager: Too long: may not be more than 128 bytes"),
            id="a manager with too long a name",
        ),
        pytest.param(
            "PATCH",
            {"force": "true"},
            OPTIONS.format("Patch", "force: Forbidden: may not be specified for non-apply patch"),
            id="force without applying",
        ),
        pytest.param(
            "DELETE",
            {"propagationPolicy": "Forward"},
            OPTIONS.format(
                "Delete",
                'propagationPolicy: Unsupported value: "Forward": supported values: "Foreground", '
                '"Background",'
                ' "Orphan", "nil"',
            ),
            id="a propagation that is none",
        ),
    ],
)
def test_an_option_that_is_not_known_is_refused_and_nothing_is_written(
    api: ApiCalls, populated: str, method: str, query: dict[str, str], message: str
) -> None:
    path = MAPS.format(ns=populated)
    body = (
        None
        if method == "DELETE"
        else {**config_map("d" if method == "POST" else "c", a="2"), "kind": "ConfigMap"}
    )
    place, kind = (path if method == "POST" else f"{path}/c"), (MERGE if method == "PATCH" else "")
    assert refusal_message(api, 422, f"{method} {place}", body, kind, **query) == message
    names = {each["metadata"]["name"]: each.get("data") for each in api.get(path)["items"]}
    assert "d" not in names
    assert names["c"] == {"a": "1"}


def test_a_deletions_body_outweighs_its_query(api: ApiCalls, populated: str) -> None:
    path = f"{MAPS.format(ns=populated)}/c"
    api.request("DELETE", path, {"dryRun": ["All"]})
    assert api.get(path)["data"] == {"a": "1"}
    api.request("DELETE", path, {"propagationPolicy": "Background"}, dryRun="All")
    assert api.read_or_none(lambda: api.get(path)) is None


@pytest.mark.parametrize(
    ("body", "message"),
    [
        pytest.param(
            {"kind": "Pod", "apiVersion": "v1"},
            'no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"',
            id="another kind than options",
        ),
        pytest.param(
            {"gracePeriodSeconds": "5"},
            (
                "json: cannot unmarshal string into Go struct field "
                "DeleteOptions.gracePeriodSeconds "
                "of type int64"
            ),
            id="a word for a number",
        ),
    ],
)
def test_a_body_that_is_no_options_deletes_nothing(
    api: ApiCalls, populated: str, body: Json, message: str
) -> None:
    path = f"{MAPS.format(ns=populated)}/c"
    assert refusal_message(api, 400, f"DELETE {path}", body) == message
    assert api.get(path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param(
            {"labels": {"-a": "x"}},
            f'metadata.labels: Invalid value: "-a": {KEY}',
            id="a label's key",
        ),
        pytest.param(
            {"labels": {"a": "x" * 64}},
            f'metadata.labels: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
            id="a label's length",
        ),
        pytest.param(
            {"annotations": {"A b": "x"}},
            f'metadata.annotations: Invalid value: "A b": {KEY}',
            id="an annotation's key",
        ),
        pytest.param(
            {"annotations": {"a": "x" * 262_145}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
            id="too much in annotations",
        ),
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
            (
                'parsing time "2026-01-01T00:00:00Z" as "2006-01-02T15:04:05.000000Z07:00": cannot '
                'parse "Z" as ".000000"'
            ),
            id="no microseconds",
        ),
        pytest.param(
            {"renewTime": "soon"},
            (
                'parsing time "soon" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "soon" as '
                '"2006"'
            ),
            id="no instant",
        ),
    ],
)
def test_a_lease_without_microseconds_is_refused(
    api: ApiCalls, namespace: str, spec: Json, message: str
) -> None:
    body = {"metadata": {"name": "l"}, "spec": spec}
    found = refusal_message(api, 400, f"POST {LEASES.format(ns=namespace)}", body)
    assert found == f'Lease in version "v1" cannot be handled as a Lease: {message}'


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
    (verbs,) = [
        each["verbs"] for each in api.get("/api/v1")["resources"] if each["name"] == "namespaces"
    ]
    assert "deletecollection" not in verbs


def test_a_body_of_more_than_three_megabytes_is_not_read(api: ApiCalls, populated: str) -> None:
    path = f"{MAPS.format(ns=populated)}/c"
    message = refusal_message(api, 413, f"PATCH {path}", {"data": {"a": "x" * 3_200_000}}, MERGE)
    assert message == "Request entity too large: limit is 3145728"


TYPED: Json = {"colour": "red", "steps": [{"at": 1, "on": 2}], "free": {"any": 1}}
UNKNOWN = ("spec.colour", "spec.steps[0].on")


class TestUnknownFields:
    """A typing error in a job: refused to kubectl, which asks for it, and told to others."""

    def test_they_are_refused_where_that_is_asked_for(self, api: ApiCalls, things: Things) -> None:
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Thing",
            "metadata": {"name": "t"},
            "spec": TYPED,
        }
        message = refusal_message(
            api, 400, f"POST {things.path}", body, "", fieldValidation="Strict"
        )
        unknown = ", ".join(f'unknown field "{each}"' for each in UNKNOWN)
        assert message == (
            f'Thing in version "v1" cannot be handled as a Thing: strict decoding error: {unknown}'
        )
        assert things.create("t", {"color": "red"})["spec"]["color"] == "red"
        message = refusal_message(
            api, 422, f"PATCH {things.path}/t", {"spec": TYPED}, MERGE, fieldValidation="Strict"
        )
        assert message.endswith(f": strict decoding error: {unknown}")

    @pytest.mark.parametrize("wish", ["Warn", "Ignore"])
    def test_else_they_are_dropped_and_told(self, api: ApiCalls, things: Things, wish: str) -> None:
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Thing",
            "metadata": {"name": "t"},
            "spec": TYPED,
        }
        method: Any = api.custom.create_namespaced_custom_object_with_http_info
        made, _, headers = method(
            GROUP, VERSION, things.namespace, PLURAL, body, field_validation=wish
        )
        assert "colour" not in made["spec"]
        told = ", ".join(f'299 - "unknown field \\"{each}\\""' for each in UNKNOWN)
        assert headers.get("Warning") == (told if wish == "Warn" else None)

    def test_an_applier_is_refused_a_field_that_the_kind_does_not_have(
        self, api: ApiCalls, things: Things
    ) -> None:
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "Thing",
            "metadata": {"name": "t"},
            "spec": {"colour": "x"},
        }
        message = refusal_message(
            api, 500, f"PATCH {things.path}/t", body, APPLY, fieldManager="me"
        )
        about = f"(/t; {GROUP}/{VERSION}, Kind=Thing)"
        assert message == (
            f"failed to create typed patch object {about}: .spec.colour: field not declared in "
            "schema"
        )
