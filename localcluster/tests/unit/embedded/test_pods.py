"""What the server does to pods of its own: defaults, admission, and what of them may change."""

import pytest

from localcluster.embedded.apiserver.kinds import Json
from tests.unit.embedded.world import World, config_map, patched, pod, refusal


class TestAdmission:
    def test_a_pod_gets_its_account_its_token_and_its_tolerations(self) -> None:
        made = World().create("pods", pod())
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
            "volumes" not in World().create("pods", pod(automountServiceAccountToken=False))["spec"]
        )

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            pytest.param(
                {"serviceAccountName": "x"},
                (
                    'pods "p" is forbidden: error looking up service account ns/x: serviceaccount '
                    '"x" '
                    "not found"
                ),
                id="an account that is not there",
            ),
            pytest.param(
                {"priorityClassName": "x"},
                'pods "p" is forbidden: no PriorityClass with name x was found',
                id="a class that is not there",
            ),
            pytest.param(
                {"containers": []},
                'Pod "p" is invalid: spec.containers: Required value',
                id="no containers",
            ),
            pytest.param(
                {
                    "containers": [
                        {"name": "c", "image": "i", "resources": {"requests": {"cpu": "x"}}}
                    ]
                },
                'Pod in version "v1" cannot be handled as a Pod: quantities must match the '
                "regular expression"
                " '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
                id="an amount that is none",
            ),
            pytest.param(
                {
                    "containers": [
                        {
                            "name": "c",
                            "image": "i",
                            "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}},
                        }
                    ]
                },
                'Pod "p" is invalid: spec.containers[0].resources.requests: Invalid value: "2": '
                "must be less than or"
                " equal to cpu limit of 1",
                id="more asked for than allowed",
            ),
        ],
    )
    def test_pods_that_are_refused(self, spec: Json, message: str) -> None:
        world = World()
        assert str(refusal(lambda: world.create("pods", pod(**spec)))) == message

    def test_what_a_pod_is_may_not_change(self) -> None:
        world = World()
        world.create("pods", pod())
        image = {
            "spec": {
                "containers": [
                    {**(world.get("pods", "p") or {})["spec"]["containers"][0], "image": "i:2"}
                ]
            }
        }
        assert patched(world, "pods", "p", image)["spec"]["containers"][0]["image"] == "i:2"
        refused = refusal(lambda: patched(world, "pods", "p", {"spec": {"schedulerName": "other"}}))
        assert "pod updates may not change fields other than" in str(refused)

    def test_nothing_is_made_in_a_namespace_that_goes(self) -> None:
        world = World()
        world.objects.delete(world.target("namespaces", "ns"))
        refused = refusal(lambda: world.create("configmaps", config_map("late")))
        assert (refused.code, "because it is being terminated" in str(refused)) == (403, True)


class TestLimits:
    @pytest.mark.parametrize(
        ("resources", "quality"),
        [
            pytest.param({}, "BestEffort", id="nothing asked for"),
            pytest.param({"requests": {"cpu": "1"}}, "Burstable", id="something asked for"),
            pytest.param(
                {"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed", id="everything limited"
            ),
            pytest.param({"limits": {"cpu": "1"}}, "Burstable", id="not everything limited"),
            pytest.param(
                {"limits": {"nvidia.com/gpu": "1"}}, "BestEffort", id="devices do not count"
            ),
        ],
    )
    def test_the_quality_of_service(self, resources: Json, quality: str) -> None:
        container = {"name": "c", "image": "i", "resources": resources}
        assert World().create("pods", pod(containers=[container]))["status"]["qosClass"] == quality
