"""Controllers of a control plane that the product's installation and jobs need."""

from typing import Any

import pytest

from tests.conformance.api_calls import ApiCalls, Json, now, pod


class TestNodes:
    def test_a_node_is_kept_free_until_it_is_ready(self, api: ApiCalls) -> None:
        at = {"lastHeartbeatTime": now(), "lastTransitionTime": now()}
        unready = {"type": "Ready", "status": "False", **at}
        api.core.create_node({"metadata": {"name": "late"}, "status": {"conditions": [unready]}})
        taints = [(each.key, each.effect) for each in api.core.read_node("late").spec.taints]
        assert ("node.kubernetes.io/not-ready", "NoSchedule") in taints
        ready = {"type": "Ready", "status": "True", **at}
        api.core.patch_node_status("late", {"status": {"conditions": [ready]}})
        api.wait_until(lambda: not api.core.read_node("late").spec.taints, "the taint is gone")
        api.core.delete_node("late")

    def test_a_cordoned_node_is_tainted_until_it_is_uncordoned(self, api: ApiCalls) -> None:
        name = api.make_node()
        api.core.patch_node(name, {"spec": {"unschedulable": True}})
        expected = [("node.kubernetes.io/unschedulable", "NoSchedule")]
        api.wait_until(
            lambda: (
                [(each.key, each.effect) for each in api.core.read_node(name).spec.taints or ()]
                == expected
            ),
            "the node is tainted",
        )
        api.core.patch_node(name, {"spec": {"unschedulable": None}})
        api.wait_until(lambda: not api.core.read_node(name).spec.taints, "the taint is gone")
        api.core.delete_node(name)


class TestAccounts:
    def test_a_pod_is_given_its_account_and_a_token_of_it(
        self, api: ApiCalls, namespace: str
    ) -> None:
        made = api.core.create_namespaced_pod(namespace, pod("p")).spec
        assert made.service_account_name == "default"
        (volume,) = made.volumes
        assert volume.name.startswith("kube-api-access-")
        sources = volume.projected.sources
        assert [bool(each.service_account_token) for each in sources] == [True, False, False]
        (mount,) = made.containers[0].volume_mounts
        assert mount.name == volume.name
        assert (mount.mount_path, mount.read_only) == (
            "/var/run/secrets/kubernetes.io/serviceaccount",
            True,
        )

    def test_a_pod_may_do_without(self, api: ApiCalls, namespace: str) -> None:
        made = api.core.create_namespaced_pod(
            namespace, pod("p", automountServiceAccountToken=False)
        ).spec
        assert made.volumes is None

    def test_a_pod_of_an_account_that_is_not_there_is_refused(
        self, api: ApiCalls, namespace: str
    ) -> None:
        with api.refused(403, "Forbidden") as refusal:
            api.core.create_namespaced_pod(namespace, pod("p", serviceAccountName="nobody"))
        assert refusal.message == (
            f'pods "p" is forbidden: error looking up service account {namespace}/nobody: '
            'serviceaccount "nobody" not found'
        )


class TestVolumes:
    def test_a_claim_is_bound_to_the_volume_that_was_made_for_it(
        self, api: ApiCalls, namespace: str
    ) -> None:
        common: Json = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
        claim_of = {"namespace": namespace, "name": "c"}
        source = {
            "hostPath": {"path": "/tmp/volume"},
            "claimRef": claim_of,
            "capacity": {"storage": "1Gi"},
        }
        api.core.create_persistent_volume(
            {"metadata": {"name": namespace}, "spec": {**common, **source}}
        )
        asked = {"volumeName": namespace, "resources": {"requests": {"storage": "1Gi"}}}
        api.core.create_namespaced_persistent_volume_claim(
            namespace, {"metadata": {"name": "c"}, "spec": {**common, **asked}}
        )
        api.wait_until(
            lambda: (
                api.core.read_namespaced_persistent_volume_claim("c", namespace).status.phase
                == "Bound"
            ),
            "the claim is bound",
        )
        volume = api.core.read_persistent_volume(namespace)
        claim = api.core.read_namespaced_persistent_volume_claim("c", namespace)
        assert (volume.status.phase, volume.spec.claim_ref.uid) == ("Bound", claim.metadata.uid)
        api.core.delete_persistent_volume(namespace)


class TestDeployments:
    @pytest.fixture
    def deployed(self, api: ApiCalls, namespace: str) -> Any:
        template = pod("unused", {"app": "d"}, restartPolicy="Always")
        spec = {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": template["spec"]},
        }
        api.apps.create_namespaced_deployment(namespace, {"metadata": {"name": "d"}, "spec": spec})
        return self.the_pod(api, namespace)

    def the_pod(self, api: ApiCalls, namespace: str, image: str = "image:1") -> Any:
        def found() -> Any:
            pods = api.core.list_namespaced_pod(namespace, label_selector="app=d").items
            return pods[0] if len(pods) == 1 and pods[0].spec.containers[0].image == image else None

        return api.wait_until(found, f"there is one pod, of {image}")

    def test_a_deployments_pods_are_made_by_a_replica_set_of_its_template(
        self, api: ApiCalls, namespace: str, deployed: Any
    ) -> None:
        (owner,) = deployed.metadata.owner_references
        assert (owner.kind, owner.controller) == ("ReplicaSet", True)
        replica_set = api.apps.read_namespaced_replica_set(owner.name, namespace)
        hashed = replica_set.metadata.labels["pod-template-hash"]
        assert replica_set.metadata.name == f"d-{hashed}"
        assert deployed.metadata.labels == {"app": "d", "pod-template-hash": hashed}
        assert deployed.metadata.name.startswith(f"d-{hashed}-")
        assert replica_set.metadata.owner_references[0].name == "d"

    def test_a_pod_that_is_ready_is_available(
        self, api: ApiCalls, namespace: str, deployed: Any
    ) -> None:
        name = deployed.metadata.name
        api.bind(name, namespace, namespace)
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": now()}
        api.core.patch_namespaced_pod_status(
            name, namespace, {"status": {"phase": "Running", "conditions": [ready]}}
        )

        def available() -> bool:
            status = api.apps.read_namespaced_deployment("d", namespace).status
            generation = api.apps.read_namespaced_deployment("d", namespace).metadata.generation
            counts = (
                status.replicas,
                status.updated_replicas,
                status.ready_replicas,
                status.available_replicas,
            )
            return bool(counts == (1, 1, 1, 1) and status.observed_generation == generation)

        api.wait_until(available, "the deployment counts its pod")

    def test_a_pod_that_is_gone_is_recreated(
        self, api: ApiCalls, namespace: str, deployed: Any
    ) -> None:
        api.core.delete_namespaced_pod(deployed.metadata.name, namespace)
        api.wait_until(
            lambda: self.the_pod(api, namespace).metadata.uid != deployed.metadata.uid,
            "another pod is there",
        )

    def test_a_new_template_replaces_the_old_pod_only_when_that_is_gone(
        self, api: ApiCalls, namespace: str, deployed: Any
    ) -> None:
        name = deployed.metadata.name
        api.bind(name, namespace, namespace)
        api.core.patch_namespaced_pod_status(name, namespace, {"status": {"phase": "Running"}})
        container = {"name": "main", "image": "image:2"}
        template = {"spec": {"template": {"spec": {"containers": [container]}}}}
        api.apps.patch_namespaced_deployment("d", namespace, template)
        api.wait_until(
            lambda: api.core.read_namespaced_pod(name, namespace).metadata.deletion_timestamp,
            "the old pod is to go",
        )
        api.holds(
            lambda: len(api.core.list_namespaced_pod(namespace).items) == 1,
            "no new pod is made yet",
            0.5,
        )
        api.core.delete_namespaced_pod(name, namespace, grace_period_seconds=0)
        assert self.the_pod(api, namespace, "image:2").metadata.name != name

    def test_its_pods_go_with_it(self, api: ApiCalls, namespace: str, deployed: Any) -> None:
        api.apps.delete_namespaced_deployment("d", namespace)
        api.wait_until(
            lambda: not api.core.list_namespaced_pod(namespace).items, "the pods are gone"
        )
        assert api.apps.list_namespaced_replica_set(namespace).items == []
