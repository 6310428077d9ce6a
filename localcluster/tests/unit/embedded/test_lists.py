"""Lists: what is selected, at which version, whole."""

import msgspec
import pytest

from localcluster.embedded.apiserver.errors import StatusError
from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.routes import listed
from localcluster.embedded.apiserver.selectors import Selection, parse_labels
from tests.cases import cases
from tests.unit.embedded.api_server import ApiServer, config_map


def read(server: ApiServer, query: dict[str, str], selection: Selection | None = None) -> Json:
    selection = selection or Selection(namespace="ns")
    resource = server.resource("configmaps")
    body: Json = msgspec.json.decode(listed(server.store, resource, selection, query))
    return body


@cases(
    "query",
    {
        "without parameters": {},
        "of any version": {"resourceVersion": "0", "limit": "1"},
        "of a version or later": {"resourceVersion": "1"},
        "with a limit, which a server may ignore": {"limit": "2"},
    },
)
def test_a_list_holds_every_selected_object(query: dict[str, str]) -> None:
    server = ApiServer()
    for index, name in enumerate("abcdef"):
        server.create("configmaps", config_map(name, labels={"odd": str(index % 2)}))
    found = read(server, query, Selection(parse_labels("odd=1"), (), "ns"))
    assert [each["metadata"]["name"] for each in found["items"]] == ["b", "d", "f"]
    assert found["metadata"] == {"resourceVersion": str(server.store.version)}


def test_an_unknown_future_version_times_out() -> None:
    with pytest.raises(StatusError) as refused:
        read(ApiServer(), {"resourceVersion": str(10**9)})
    assert (refused.value.code, refused.value.reason) == (504, "Timeout")
    assert "Too large resource version: 1000000000" in str(refused.value)
