"""The pages of a list are consistent, whatever is written between them."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.lists import ListQuery, page, parse_list
from localcluster.embedded.apiserver.selectors import Selection, parse_labels
from tests.unit.embedded.api_server import ApiServer, config_map


def listed(server: ApiServer, query: ListQuery, selection: Selection | None = None) -> Json:
    selection = selection or Selection(namespace="ns")
    body: Json = msgspec.json.decode(
        page(server.store, server.resource("configmaps"), selection, query)
    )
    return body


def names(body: Json) -> list[str]:
    return [each["metadata"]["name"] for each in body["items"]]


@given(
    st.sets(st.sampled_from("abcdefgh"), max_size=8),
    st.integers(1, 4),
    st.lists(st.sampled_from("abcdefgh"), max_size=6),
)
def test_pages_show_the_version_of_the_first(
    there: set[str], limit: int, flipped: list[str]
) -> None:
    server = ApiServer()
    for name in sorted(there):
        server.create("configmaps", config_map(name))
    wanted = server.names("configmaps")
    body = listed(server, ListQuery(limit))
    seen, version = names(body), body["metadata"]["resourceVersion"]
    while token := body["metadata"].get("continue"):
        assert body["metadata"]["remainingItemCount"] == len(wanted) - len(seen)
        for name in flipped[:1]:
            if server.get("configmaps", name) is None:
                server.create("configmaps", config_map(name))
            else:
                server.objects.delete(server.target("configmaps", name))
        flipped = flipped[1:]
        body = listed(server, ListQuery(limit, token))
        assert body["metadata"]["resourceVersion"] == version
        seen += names(body)
    assert seen == wanted


def test_pages_of_a_selection_hold_as_many_as_were_asked_for() -> None:
    server = ApiServer()
    for index, name in enumerate("abcdef"):
        server.create("configmaps", config_map(name, labels={"odd": str(index % 2)}))
    odd = Selection(parse_labels("odd=1"), (), "ns")
    first = listed(server, ListQuery(2), odd)
    second = listed(server, ListQuery(2, first["metadata"]["continue"]), odd)
    assert (names(first), names(second)) == (["b", "d"], ["f"])
    assert "remainingItemCount" not in first["metadata"]


def test_a_page_after_a_compaction_has_expired() -> None:
    server = ApiServer()
    for name in "abc":
        server.create("configmaps", config_map(name))
    token = listed(server, ListQuery(1))["metadata"]["continue"]
    server.create("configmaps", config_map("later"))
    server.store.compact()
    with pytest.raises(StatusError) as refused:
        listed(server, ListQuery(1, token))
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


def test_a_version_before_a_compaction_has_expired() -> None:
    server = ApiServer()
    version = server.store.version
    server.create("configmaps", config_map("a"))
    server.store.compact()
    with pytest.raises(
        StatusError, match="The resourceVersion for the provided list is too old"
    ) as refused:
        listed(server, ListQuery(version=version, exact=True))
    assert refused.value.code == 410


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        pytest.param({}, ListQuery(), id="nothing said"),
        pytest.param(
            {"resourceVersion": "0", "limit": "1"}, ListQuery(), id="any version comes whole"
        ),
        pytest.param({"limit": "-1"}, ListQuery(), id="less than nothing is no limit"),
        pytest.param({"resourceVersion": "7"}, ListQuery(version=7), id="not older than"),
        pytest.param(
            {"resourceVersion": "7", "limit": "2"},
            ListQuery(2, version=7, exact=True),
            id="a page of it",
        ),
        pytest.param(
            {"resourceVersion": "7", "limit": "2", "resourceVersionMatch": "NotOlderThan"},
            ListQuery(2, version=7),
            id="a page of what is not older",
        ),
        pytest.param(
            {"continue": "t", "limit": "2", "resourceVersion": "0"},
            ListQuery(2, "t"),
            id="a further page",
        ),
    ],
)
def test_which_version_is_meant(query: dict[str, str], wanted: ListQuery) -> None:
    assert parse_list(query) == wanted


def test_an_exact_version_is_the_past() -> None:
    server = ApiServer()
    server.create("configmaps", config_map("a"))
    version = server.store.version
    server.objects.delete(server.target("configmaps", "a"))
    assert "a" in names(listed(server, ListQuery(version=version, exact=True)))
    assert "a" not in names(listed(server, ListQuery(version=version)))


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        pytest.param(
            {"limit": "x"},
            400,
            'strconv.ParseInt: parsing "x": invalid syntax',
            id="a limit in letters",
        ),
        pytest.param(
            {"resourceVersion": "abc"},
            400,
            'invalid resource version: resourceVersion: Invalid value: "abc": strconv.ParseUint: '
            'parsing "abc": invalid'
            " syntax",
            id="a version in letters",
        ),
        pytest.param(
            {"continue": "t", "resourceVersion": "3"},
            400,
            "specifying resource version is not allowed when using continue",
            id="a page of two versions",
        ),
    ],
)
def test_parameters_that_cannot_be_read(query: dict[str, str], code: int, message: str) -> None:
    with pytest.raises(StatusError) as refused:
        parse_list(query)
    assert (refused.value.code, str(refused.value)) == (code, message)


def test_a_version_that_was_never_given_is_a_time_out() -> None:
    with pytest.raises(StatusError) as refused:
        listed(ApiServer(), ListQuery(version=10**9))
    assert (refused.value.code, refused.value.reason) == (504, "Timeout")
    assert "Too large resource version: 1000000000" in str(refused.value)


@pytest.mark.parametrize("token", ["zzz", base64.b64encode(b"{}").decode(), "%"])
def test_a_token_of_somebody_elses_is_refused(token: str) -> None:
    with pytest.raises(StatusError, match="invalid continue token"):
        listed(ApiServer(), ListQuery(1, token))
