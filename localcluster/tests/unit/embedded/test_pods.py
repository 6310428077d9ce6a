"""Pods: defaults, admission, and which fields may change."""

from localcluster.embedded.apiserver.kinds import Json
from tests.cases import cases
from tests.unit.embedded.api_server import ApiServer, config_map, pod, refusal


class TestAdmission:
    def test_a_pod_gets_its_account_its_token_and_its_tolerations(self) -> None:
        made = ApiServer().create("pods", pod())
        spec = made["spec"]
        assert (spec["serviceAccountName"], spec["priority"], made["status"]["phase"]) == (
            "default",
            0,
            "Pending",
        )
        (volume,) = spec["volumes"]
        (mount,) = spec["containers"][0]["volumeMounts"]
        assert mount["name"] == volume["name"]
        assert {each["key"].partition("/")[2] for each in spec["tolerations"]} == {
            "not-ready",
            "unreachable",
        }

    def test_a_pod_that_wants_no_token_gets_none(self) -> None:
        assert (
            "volumes"
            not in ApiServer().create("pods", pod(automountServiceAccountToken=False))["spec"]
        )

    @cases(
        ("spec", "message"),
        {
            "an account that is not there": (
                {"serviceAccountName": "x"},
                (
                    'pods "p" is forbidden: error looking up service account ns/x: serviceaccount '
                    '"x" '
                    "not found"
                ),
            ),
            "a class that is not there": (
                {"priorityClassName": "x"},
                'pods "p" is forbidden: no PriorityClass with name x was found',
            ),
        },
    )
    def test_pods_that_are_refused(self, spec: Json, message: str) -> None:
        server = ApiServer()
        assert str(refusal(lambda: server.create("pods", pod(**spec)))) == message

    def test_nothing_is_created_in_a_terminating_namespace(self) -> None:
        server = ApiServer()
        server.objects.delete(server.target("namespaces", "ns"))
        refused = refusal(lambda: server.create("configmaps", config_map("late")))
        assert (refused.code, "because it is being terminated" in str(refused)) == (403, True)
