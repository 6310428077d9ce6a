"""Pages of a list are one moment together, whatever is written between them."""

import base64

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.lists import ListQuery, page, parse_list
from localcluster.embedded.apiserver.refusals import Refusal
from localcluster.embedded.apiserver.selectors import Selection, parse_labels
from tests.unit.embedded.world import World, config_map


def listed(world: World, query: ListQuery, selection: Selection | None = None) -> Json:
    selection = selection or Selection(namespace="ns")
    body: Json = msgspec.json.decode(
        page(world.store, world.resource("configmaps"), selection, query)
    )
    return body


def names(body: Json) -> list[str]:
    return [each["metadata"]["name"] for each in body["items"]]


@given(
    st.sets(st.sampled_from("abcdefgh"), max_size=8),
    st.integers(1, 4),
    st.lists(st.sampled_from("abcdefgh"), max_size=6),
)
def test_pages_show_the_first_pages_moment(there: set[str], limit: int, flipped: list[str]) -> None:
    world = World()
    for name in sorted(there):
        world.create("configmaps", config_map(name))
    wanted = world.names("configmaps")
    body = listed(world, ListQuery(limit))
    seen, version = names(body), body["metadata"]["resourceVersion"]
    while token := body["metadata"].get("continue"):
        assert body["metadata"]["remainingItemCount"] == len(wanted) - len(seen)
        for name in flipped[:1]:
            if world.get("configmaps", name) is None:
                world.create("configmaps", config_map(name))
            else:
                world.objects.delete(world.target("configmaps", name))
        flipped = flipped[1:]
        body = listed(world, ListQuery(limit, token))
        assert body["metadata"]["resourceVersion"] == version
        seen += names(body)
    assert seen == wanted


def test_pages_of_a_selection_hold_as_many_as_were_asked_for() -> None:
    world = World()
    for index, name in enumerate("abcdef"):
        world.create("configmaps", config_map(name, labels={"odd": str(index % 2)}))
    odd = Selection(parse_labels("odd=1"), (), "ns")
    first = listed(world, ListQuery(2), odd)
    second = listed(world, ListQuery(2, first["metadata"]["continue"]), odd)
    assert (names(first), names(second)) == (["b", "d"], ["f"])
    assert "remainingItemCount" not in first["metadata"]


def test_a_page_after_a_compaction_has_expired() -> None:
    world = World()
    for name in "abc":
        world.create("configmaps", config_map(name))
    token = listed(world, ListQuery(1))["metadata"]["continue"]
    world.create("configmaps", config_map("later"))
    world.store.compact()
    with pytest.raises(Refusal) as refused:
        listed(world, ListQuery(1, token))
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    # The refusal brings a token for the rest as it is now, as its sentence says.
    rest = listed(world, ListQuery(0, refused.value.status["metadata"]["continue"]))
    assert names(rest) == ["b", "c", "kube-root-ca.crt", "later"]
    assert rest["metadata"]["resourceVersion"] == str(world.store.version)


def test_a_version_before_a_compaction_has_expired() -> None:
    world = World()
    version = world.store.version
    world.create("configmaps", config_map("a"))
    world.store.compact()
    with pytest.raises(
        Refusal, match="The resourceVersion for the provided list is too old"
    ) as refused:
        listed(world, ListQuery(version=version, exact=True))
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
    world = World()
    world.create("configmaps", config_map("a"))
    version = world.store.version
    world.objects.delete(world.target("configmaps", "a"))
    assert "a" in names(listed(world, ListQuery(version=version, exact=True)))
    assert "a" not in names(listed(world, ListQuery(version=version)))


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
            {"resourceVersionMatch": "Exact"},
            422,
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
            "resourceVersionMatch is forbidden"
            " unless resourceVersion is provided",
            id="how to match, but nothing to match",
        ),
        pytest.param(
            {"continue": "t", "resourceVersion": "3"},
            400,
            "specifying resource version is not allowed when using continue",
            id="a page of two versions",
        ),
        pytest.param(
            {"continue": "t", "resourceVersion": "3", "resourceVersionMatch": "Exact"},
            422,
            'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
            "resourceVersionMatch is forbidden"
            " when continue is provided",
            id="how to match a further page",
        ),
        pytest.param(
            {"sendInitialEvents": "true"},
            422,
            'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: '
            "sendInitialEvents is forbidden for"
            " list",
            id="what only a watch can do",
        ),
    ],
)
def test_parameters_that_cannot_be_read(query: dict[str, str], code: int, message: str) -> None:
    with pytest.raises(Refusal) as refused:
        parse_list(query)
    assert (refused.value.code, str(refused.value)) == (code, message)


def test_a_version_that_was_never_given_is_a_time_out() -> None:
    with pytest.raises(Refusal) as refused:
        listed(World(), ListQuery(version=10**9))
    assert (refused.value.code, refused.value.reason) == (504, "Timeout")
    assert "Too large resource version: 1000000000" in str(refused.value)


@pytest.mark.parametrize("token", ["zzz", base64.b64encode(b"{}").decode(), "%"])
def test_a_token_of_somebody_elses_is_refused(token: str) -> None:
    with pytest.raises(Refusal, match="invalid continue token"):
        listed(World(), ListQuery(1, token))
