"""What kubectl 1.36.3 sent in protobuf, byte for byte, is read as what it would have sent in
JSON."""

import pytest

from localcluster.embedded.apiserver.kinds import Json
from localcluster.embedded.apiserver.protobuf import decoded
from localcluster.embedded.apiserver.refusals import Refusal
from tests.unit.embedded.world import World

PROTOBUF = "application/vnd.kubernetes.protobuf"
NAMESPACE = (
    "6b3873000a0f0a02763112094e616d657370616365121b0a130a03666f6f12001a0022002a00"
    "32003800420012001a020a001a002200"
)
CONFIG_MAP = (
    "6b3873000a0f0a0276311209436f6e6669674d617012240a120a02636d12001a0022002a003200380042001206"
    "0a016112016212060a01631201641a002200"
)
SECRET = (
    "6b3873000a0c0a0276311206536563726574121d0a110a017312001a0022002a003200380042"
    "0012060a01611201621a001a002200"
)
REVIEW = (
    "6b3873000a320a17617574686f72697a6174696f6e2e6b38732e696f2f7631121753656c665375626a656374416363657373526576696577"
    "123f0a100a0012001a0022002a0032003800420012210a1f0a0764656661756c7412066372656174651a0022002a04706f647332003a001a"
    "08080012001a0020001a002200"
)
PRIORITY_CLASS = (
    "6b3873000a250a147363686564756c696e672e6b38732e696f2f7631120d5072696f72697479436c617373122f0a110a017012001a002200"
    "2a003200380042001005180022002a14507265656d70744c6f7765725072696f726974791a002200"
)
ROLE = (
    "6b3873000a240a1c726261632e617574686f72697a6174696f6e2e6b38732e696f2f76311204526f6c6512220a110a017212001a0022002a"
    "00320038004200120d0a0367657412001a04706f64731a002200"
)


@pytest.mark.parametrize(
    ("sent", "read"),
    [
        pytest.param(
            NAMESPACE,
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foo"}},
            id="create namespace",
        ),
        pytest.param(
            CONFIG_MAP,
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "cm"},
                "data": {"a": "b", "c": "d"},
            },
            id="create configmap",
        ),
        pytest.param(
            SECRET,
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "s"},
                "data": {"a": "Yg=="},
            },
            id="create secret",
        ),
        pytest.param(
            REVIEW,
            {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {
                    "resourceAttributes": {
                        "namespace": "default",
                        "verb": "create",
                        "resource": "pods",
                    }
                },
            },
            id="auth can-i",
        ),
        pytest.param(
            PRIORITY_CLASS,
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": "p"},
                "value": 5,
                "globalDefault": False,
                "preemptionPolicy": "PreemptLowerPriority",
            },
            id="create priorityclass",
        ),
    ],
)
def test_messages_of_kubectl(sent: str, read: Json) -> None:
    assert decoded(bytes.fromhex(sent)) == read


def test_a_namespace_is_made_of_one() -> None:
    world = World()
    code, made = world.ask("POST", "/api/v1/namespaces", bytes.fromhex(NAMESPACE), PROTOBUF)
    assert (code, made["metadata"]["name"], made["status"]) == (201, "foo", {"phase": "Active"})


def test_a_kind_that_is_not_known_so_is_refused_with_what_to_do() -> None:
    with pytest.raises(
        Refusal, match="a Role in protobuf is not read here; send it as JSON or YAML"
    ) as refused:
        decoded(bytes.fromhex(ROLE))
    assert refused.value.code == 415


@pytest.mark.parametrize("cut", range(0, len(NAMESPACE) // 2, 5))
def test_a_message_that_is_cut_is_refused_or_read_in_part(cut: int) -> None:
    """Never an error of the server's own."""
    code, _ = World().ask("POST", "/api/v1/namespaces", bytes.fromhex(NAMESPACE)[:cut], PROTOBUF)
    assert code in {201, 400, 415, 422}
