"""Garbage collection: objects without an existing owner go, no others."""

from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.apiserver.kinds import Json
from tests.unit.embedded.api_server import ApiServer, config_map, owner


def owned(server: ApiServer, name: str, *owners: Json, **more: object) -> Json:
    return server.create(
        "configmaps", config_map(name, ownerReferences=[owner(each, **more) for each in owners])
    )


def delete(server: ApiServer, name: str) -> None:
    server.objects.delete(server.target("configmaps", name))
    server.settle()


def made(server: ApiServer) -> list[str]:
    return [name for name in server.names("configmaps") if name != "kube-root-ca.crt"]


def test_a_recreated_owner_of_the_same_name_is_another() -> None:
    server = ApiServer()
    old = server.create("configmaps", config_map("parent"))
    server.objects.delete(server.target("configmaps", "parent"))
    server.create("configmaps", config_map("parent"))
    owned(server, "child", old)
    server.settle()
    assert made(server) == ["parent"]


@given(
    owners=st.dictionaries(st.integers(1, 7), st.sets(st.integers(0, 6), max_size=2), max_size=7),
    deleted=st.sets(st.integers(0, 7), max_size=3),
)
def test_what_remains_is_reachable_from_objects_without_owners(
    owners: dict[int, set[int]], deleted: set[int]
) -> None:
    """Objects 0..7, each owned by some of those before it; some are deleted."""
    server, bodies = ApiServer(), dict[int, Json]()
    parents = {
        number: {each for each in owners.get(number, set()) if each < number} for number in range(8)
    }
    for number in range(8):
        bodies[number] = owned(
            server, f"o{number}", *(bodies[each] for each in sorted(parents[number]))
        )
    for number in sorted(deleted):
        if server.get("configmaps", f"o{number}") is not None:
            server.objects.delete(server.target("configmaps", f"o{number}"))
    server.settle()
    left: set[int] = set()
    for number in range(8):
        if number not in deleted and (not parents[number] or parents[number] & left):
            left.add(number)
    assert made(server) == [f"o{number}" for number in sorted(left)]
