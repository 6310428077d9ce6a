"""Names, labels and environment of a job's pods and services."""

import json

import pytest
from kubernetes.client.exceptions import ApiException

from tests.conformance.api_calls import Json
from tests.conformance.operator.jobs import LABELS, Job, replicas


class TestNamesAndLabels:
    def test_each_replica_is_a_pod_and_a_headless_service_of_the_same_name(
        self, tfjob: Job
    ) -> None:
        tfjob.create({"PS": replicas("TFJob", 2), "Worker": replicas("TFJob", 1)})
        tfjob.wait_pods("ps-0", "ps-1", "worker-0")
        assert {pod.metadata.name for pod in tfjob.pods().values()} == {
            "j-ps-0",
            "j-ps-1",
            "j-worker-0",
        }
        service = tfjob.services()["ps-1"]
        assert service.spec.cluster_ip == "None"
        assert [(port.name, port.port) for port in service.spec.ports] == [("tfjob-port", 2222)]
        assert service.spec.selector == service.metadata.labels
        assert service.spec.selector.items() <= tfjob.pods()["ps-1"].metadata.labels.items()

    def test_labels_say_which_replica_of_which_job_a_pod_is(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 2)})
        pods = tfjob.wait_pods("ps-0", "worker-0", "worker-1")
        common = {f"{LABELS}/operator-name": "tfjob-controller", f"{LABELS}/job-name": "j"}
        assert pods["ps-0"].metadata.labels == {
            **common,
            f"{LABELS}/replica-type": "ps",
            f"{LABELS}/replica-index": "0",
        }
        assert pods["worker-1"].metadata.labels == {
            **common,
            f"{LABELS}/replica-type": "worker",
            f"{LABELS}/replica-index": "1",
        }

    def test_worker_0_is_the_master_where_there_is_no_chief(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 2)})
        tfjob.wait_pods("ps-0", "worker-0", "worker-1")
        assert masters(tfjob) == {"worker-0"}

    def test_the_chief_is_the_master(self, tfjob: Job) -> None:
        tfjob.create({"Chief": replicas("TFJob", 1), "Worker": replicas("TFJob", 1)})
        tfjob.wait_pods("chief-0", "worker-0")
        assert masters(tfjob) == {"chief-0"}

    def test_every_server_of_an_mxjob_is_called_a_master(self, mxjob: Job) -> None:
        mxjob.create(mxnet(2, 1))
        pods = mxjob.wait_pods("scheduler-0", "server-0", "server-1", "worker-0")
        assert masters(mxjob) == {"server-0", "server-1"}
        assert pods["worker-0"].metadata.labels[f"{LABELS}/operator-name"] == "mxjob-controller"
        assert [(port.name, port.port) for port in mxjob.services()["server-1"].spec.ports] == [
            ("mxjob-port", 9091)
        ]

    def test_the_job_alone_controls_its_pods_and_services(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 1)})
        tfjob.wait_pods("ps-0", "worker-0")
        uid = tfjob.read()["metadata"]["uid"]
        for each in (tfjob.pods()["ps-0"], tfjob.services()["ps-0"]):
            (owner,) = each.metadata.owner_references
            assert (owner.api_version, owner.kind, owner.name) == ("kubeflow.org/v1", "TFJob", "j")
            assert (owner.uid, owner.controller, owner.block_owner_deletion) == (uid, True, True)

    def test_keys_of_roles_may_be_written_in_any_case(self, tfjob: Job) -> None:
        tfjob.create({"ps": replicas("TFJob", 1), "worker": replicas("TFJob", 1)})
        tfjob.wait_pods("ps-0", "worker-0")
        tfjob.api.wait_until(
            lambda: set(tfjob.status().get("replicaStatuses") or {}) == {"PS", "Worker"},
            "roles are told",
        )
        assert set(tfjob.read()["spec"]["tfReplicaSpecs"]) == {"ps", "worker"}

    def test_a_role_without_a_count_has_one_replica(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", None), "Worker": replicas("TFJob", 2)})
        tfjob.wait_pods("ps-0", "worker-0", "worker-1")
        assert len(tfjob.cluster("worker-0")["ps"]) == 1


class TestTemplates:
    def test_what_the_template_says_is_the_pods(self, tfjob: Job) -> None:
        template = replicas("TFJob", 2, nodeSelector={"pool": "training"}, priorityClassName="")
        template["template"]["metadata"] = {"labels": {"mine": "1"}, "annotations": {"told": "yes"}}
        tfjob.create({"Worker": template})
        pod = tfjob.wait_pods("worker-0", "worker-1")["worker-0"]
        assert (pod.metadata.labels["mine"], pod.metadata.annotations["told"]) == ("1", "yes")
        assert (pod.spec.scheduler_name, pod.spec.node_selector) == ("nobody", {"pool": "training"})

    def test_amounts_may_be_written_as_numbers(self, tfjob: Job) -> None:
        template = replicas("TFJob", 1)
        template["template"]["spec"]["containers"][0]["resources"] = {
            "requests": {"cpu": 1, "memory": "1Gi"}
        }
        tfjob.create({"Worker": template})
        pod = tfjob.wait_pods("worker-0")["worker-0"]
        assert pod.spec.containers[0].resources.requests == {"cpu": "1", "memory": "1Gi"}

    def test_the_jobs_own_labels_are_not_its_pods(self, tfjob: Job) -> None:
        tfjob.create({"Worker": replicas("TFJob", 2)})
        assert set(tfjob.wait_pods("worker-0", "worker-1")["worker-1"].metadata.labels) == {
            f"{LABELS}/{key}"
            for key in ("operator-name", "job-name", "replica-type", "replica-index")
        }

    def test_the_roles_restart_policy_is_the_pods(self, tfjob: Job, refuses_early: bool) -> None:
        specs = {
            "PS": replicas("TFJob", 1, "OnFailure"),
            "Worker": replicas("TFJob", 1, "Never"),
            "Evaluator": replicas("TFJob", 1, restartPolicy="Always"),
        }
        tfjob.create(specs)
        pods = tfjob.wait_pods("ps-0", "worker-0", "evaluator-0")
        found = {name: pod.spec.restart_policy for name, pod in pods.items()}
        assert found == {"ps-0": "OnFailure", "worker-0": "Never", "evaluator-0": "Never"}
        sentence = (
            "Restart policy in pod template will be overwritten by restart policy in replica spec"
        )
        verb = "Set" if refuses_early else "Setted"
        expected = ("Warning", f"{verb}PodTemplateRestartPolicy", sentence)
        tfjob.api.wait_until(
            lambda: expected in tfjob.events(),
            "an Event says that the template's policy is not used",
        )

    def test_an_own_port_is_used(self, tfjob: Job) -> None:
        spec = replicas("TFJob", 1)
        spec["template"]["spec"]["containers"][0]["ports"] = [
            {"name": "tfjob-port", "containerPort": 5555}
        ]
        tfjob.create({"PS": spec, "Worker": replicas("TFJob", 1)})
        tfjob.wait_pods("ps-0", "worker-0")
        assert [(port.name, port.port) for port in tfjob.services()["ps-0"].spec.ports] == [
            ("tfjob-port", 5555)
        ]
        assert tfjob.cluster("worker-0")["ps"] == [f"j-ps-0.{tfjob.namespace}.svc:5555"]

    def test_the_default_port_is_added_to_the_container(self, mxjob: Job) -> None:
        mxjob.create(mxnet(1, 1))
        pod = mxjob.wait_pods("scheduler-0", "server-0", "worker-0")["server-0"]
        ports = [(port.name, port.container_port) for port in pod.spec.containers[0].ports]
        assert ports == [("mxjob-port", 9091)]


class TestTensorFlow:
    def test_each_pod_gets_the_whole_cluster_and_its_own_index(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 2)})
        tfjob.wait_pods("ps-0", "worker-0", "worker-1")
        domain = f"{tfjob.namespace}.svc:2222"
        assert tfjob.environment("worker-1")["TF_CONFIG"] == (
            f'{{"cluster":{{"ps":["j-ps-0.{domain}"],"worker":["j-worker-0.{domain}","j-worker-1.{domain}"]}},'
            '"task":{"type":"worker","index":1},"environment":"cloud"}'
        )

    def test_only_the_container_of_the_framework_gets_the_cluster(self, tfjob: Job) -> None:
        spec = replicas("TFJob", 2)
        spec["template"]["spec"]["containers"].append({"name": "beside", "image": "image:1"})
        tfjob.create({"Worker": spec})
        tfjob.wait_pods("worker-0", "worker-1")
        assert tfjob.environment("worker-0", 1) == {}
        assert "TF_CONFIG" in tfjob.environment("worker-0", 0)

    def test_a_single_replica_gets_no_cluster_variable(self, tfjob: Job) -> None:
        tfjob.create({"Worker": replicas("TFJob", 1)})
        tfjob.wait_pods("worker-0")
        assert tfjob.environment("worker-0") == {}


class TestMxnet:
    def test_each_pod_gets_the_cluster_in_both_forms(self, mxjob: Job) -> None:
        mxjob.create(mxnet(1, 2))
        mxjob.wait_pods("scheduler-0", "server-0", "worker-0", "worker-1")
        told = mxjob.environment("worker-1")
        assert json.loads(told.pop("MX_CONFIG")) == {
            "cluster": {
                "scheduler": [{"url": "m-scheduler-0", "port": 9091}],
                "server": [{"url": "m-server-0", "port": 9091}],
                "worker": [
                    {"url": "m-worker-0", "port": 9091},
                    {"url": "m-worker-1", "port": 9091},
                ],
            },
            "labels": {"scheduler": "", "server": "", "worker": ""},
            "task": {"type": "worker", "index": 1},
        }
        assert told == {
            "DMLC_PS_ROOT_PORT": "9091",
            "DMLC_PS_ROOT_URI": "m-scheduler-0",
            "DMLC_NUM_SERVER": "1",
            "DMLC_NUM_WORKER": "2",
            "DMLC_ROLE": "worker",
            "DMLC_USE_KUBERNETES": "1",
            "DMLC_WORKER_ID": "1",
        }

    def test_only_workers_have_a_number_of_their_own(self, mxjob: Job) -> None:
        mxjob.create(mxnet(1, 1))
        mxjob.wait_pods("scheduler-0", "server-0", "worker-0")
        assert "DMLC_WORKER_ID" not in mxjob.environment("server-0")
        assert mxjob.environment("scheduler-0")["DMLC_ROLE"] == "scheduler"

    def test_every_container_gets_the_cluster(self, mxjob: Job) -> None:
        specs = mxnet(1, 1)
        specs["Server"]["template"]["spec"]["containers"].append(
            {"name": "beside", "image": "image:1"}
        )
        mxjob.create(specs)
        mxjob.wait_pods("scheduler-0", "server-0", "worker-0")
        assert mxjob.environment("server-0", 1) == mxjob.environment("server-0", 0)


class TestClusterVariables:
    """What a user finds in the Events of a job."""

    def test_created_and_deleted_pods_get_events(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 1)})
        tfjob.wait_pods("ps-0", "worker-0")
        made = {
            ("Normal", "SuccessfulCreatePod", f"Created pod: j-{name}")
            for name in ("ps-0", "worker-0")
        }
        made |= {
            ("Normal", "SuccessfulCreateService", f"Created service: j-{name}")
            for name in ("ps-0", "worker-0")
        }
        tfjob.api.wait_until(lambda: made <= set(tfjob.events()), "Events tell of what was made")
        tfjob.suspend()
        tfjob.wait_pods()
        gone = {
            ("Normal", "SuccessfulDeletePod", f"Deleted pod: j-{name}")
            for name in ("ps-0", "worker-0")
        }
        gone |= {
            ("Normal", "SuccessfulDeleteService", f"Deleted service: j-{name}")
            for name in ("ps-0", "worker-0")
        }
        tfjob.api.wait_until(
            lambda: gone <= set(tfjob.events()),
            f"Events tell of what was deleted ({tfjob.events()})",
        )

    @pytest.mark.parametrize(
        ("spec", "why"),
        [
            pytest.param(
                {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]},
                'spec.volumes[1].name: Duplicate value: "v"',
                id="two volumes of one name",
            ),
        ],
    )
    def test_an_invalid_template_gets_an_event(
        self, tfjob: Job, spec: Json, why: str, refuses_early: bool
    ) -> None:
        if refuses_early:
            with pytest.raises(ApiException, match="Duplicate value"):
                tfjob.create({"Worker": replicas("TFJob", 1, **spec)})
            return
        tfjob.create({"Worker": replicas("TFJob", 1, **spec)})
        told = ("Warning", "FailedCreatePod", f'Error creating: Pod "j-worker-0" is invalid: {why}')
        tfjob.api.wait_until(
            lambda: told in tfjob.events(), f"an Event says why there is no pod ({tfjob.events()})"
        )
        assert tfjob.pods() == {}


class TestRepair:
    def test_a_pod_that_is_gone_before_it_ran_is_recreated(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 2)})
        before = tfjob.wait_pods("ps-0", "worker-0", "worker-1")["worker-1"].metadata.uid
        tfjob.api.core.delete_namespaced_pod("j-worker-1", tfjob.namespace)
        tfjob.wait_made_again("worker-1", before)
        assert tfjob.condition("Failed") is None

    def test_a_service_that_is_gone_is_recreated(self, training: Job) -> None:
        training.api.core.delete_namespaced_service("j-ps-0", training.namespace)
        training.api.wait_until(
            lambda: "ps-0" in training.services(), "the service of ps-0 is made again"
        )

    def test_the_pods_and_services_go_with_the_job(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 1)})
        tfjob.wait_pods("ps-0", "worker-0")
        tfjob.delete()
        tfjob.wait_pods()


def mxnet(servers: int, workers: int, restart: str | None = None) -> dict[str, Json]:
    counts = {"Scheduler": 1, "Server": servers, "Worker": workers}
    return {role: replicas("MXJob", count, restart) for role, count in counts.items()}


def masters(job: Job) -> set[str]:
    return {
        name
        for name, pod in job.pods().items()
        if pod.metadata.labels.get(f"{LABELS}/job-role") == "master"
    }
