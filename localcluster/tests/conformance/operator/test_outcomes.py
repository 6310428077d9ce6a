"""When a job runs, succeeds, fails or restarts, in the operator's words."""

import pytest
from kubernetes.client.exceptions import ApiException

from tests.cases import cases
from tests.conformance.operator.jobs import Job, mxnet, replicas


class TestRunning:
    def test_a_new_job_is_created_and_counts_nothing(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 1)})
        assert tfjob.wait_condition("Created") == ("TFJobCreated", "TFJob j is created.")
        tfjob.api.wait_until(
            lambda: tfjob.status().get("replicaStatuses") == {"PS": {}, "Worker": {}},
            "roles are told",
        )
        assert "startTime" in tfjob.status()
        assert tfjob.condition("Running") is None

    def test_a_tfjob_runs_when_one_worker_does(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 2)})
        tfjob.wait_pods("ps-0", "worker-0", "worker-1")
        tfjob.run("ps-0")
        tfjob.api.wait_until(lambda: tfjob.counts("PS") == {"active": 1}, "the PS is counted")
        assert tfjob.condition("Running") is None
        tfjob.run("worker-1")
        assert tfjob.wait_condition("Running") == (
            "TFJobRunning",
            f"TFJob {tfjob.namespace}/j is running.",
        )
        assert tfjob.counts("Worker") == {"active": 1}

    def test_a_tfjob_with_a_chief_runs_when_the_chief_does(self, tfjob: Job) -> None:
        tfjob.create({"Chief": replicas("TFJob", 1), "Worker": replicas("TFJob", 1)})
        tfjob.wait_pods("chief-0", "worker-0")
        tfjob.run("worker-0")
        tfjob.api.wait_until(
            lambda: tfjob.counts("Worker") == {"active": 1}, "the worker is counted"
        )
        assert tfjob.condition("Running") is None
        tfjob.run("chief-0")
        tfjob.wait_condition("Running")

    def test_an_mxjob_runs_when_its_scheduler_does_whatever_the_others_do(self, mxjob: Job) -> None:
        mxjob.create(mxnet(1, 1))
        mxjob.wait_pods("scheduler-0", "server-0", "worker-0")
        mxjob.run("server-0", "worker-0")
        mxjob.api.wait_until(
            lambda: mxjob.counts("Worker") == {"active": 1}, "the worker is counted"
        )
        assert mxjob.condition("Running") is None
        mxjob.run("scheduler-0")
        assert mxjob.wait_condition("Running") == ("MXJobRunning", "MXJob m is running.")
        assert mxjob.condition("Created") == ("True", "MXJobCreated", "MXJob m is created.")


class TestSuccess:
    def test_worker_0_is_enough(self, training: Job) -> None:
        training.end("worker-0")
        message = f"TFJob {training.namespace}/j successfully completed."
        assert training.wait_condition("Succeeded") == ("TFJobSucceeded", message)
        assert (training.condition("Running") or ("",))[0] == "False"
        assert "completionTime" in training.status()
        training.api.wait_until(
            lambda: ("Normal", "TFJobSucceeded", message) in training.events(), "an Event says so"
        )

    def test_after_success_what_runs_is_counted_as_succeeded(self, training: Job) -> None:
        training.end("worker-0")
        training.api.wait_until(
            lambda: training.counts("Worker") == {"succeeded": 2}, "both workers count as succeeded"
        )
        assert training.counts("PS") == {"succeeded": 1}

    def test_another_worker_is_not_enough(self, training: Job) -> None:
        training.end("worker-1")
        training.api.wait_until(
            lambda: training.counts("Worker") == {"active": 1, "succeeded": 1}, "its end is counted"
        )
        assert training.condition("Succeeded") is None

    def test_the_chief_decides_where_there_is_one(self, tfjob: Job) -> None:
        tfjob.create({"Chief": replicas("TFJob", 1), "Worker": replicas("TFJob", 1)})
        tfjob.wait_pods("chief-0", "worker-0")
        tfjob.run("chief-0", "worker-0")
        tfjob.end("worker-0")
        tfjob.api.wait_until(
            lambda: tfjob.counts("Worker") == {"succeeded": 1}, "the worker's end is counted"
        )
        assert tfjob.condition("Succeeded") is None
        tfjob.end("chief-0")
        tfjob.wait_condition("Succeeded")

    def test_an_mxjob_succeeds_with_its_scheduler(self, mxjob: Job) -> None:
        mxjob.create(mxnet(1, 1))
        mxjob.wait_pods("scheduler-0", "server-0", "worker-0")
        mxjob.run("scheduler-0", "server-0", "worker-0")
        mxjob.end("worker-0")
        mxjob.api.wait_until(
            lambda: mxjob.counts("Worker") == {"succeeded": 1}, "the worker's end is counted"
        )
        assert mxjob.condition("Succeeded") is None
        mxjob.end("scheduler-0")
        assert mxjob.wait_condition("Succeeded") == (
            "MXJobSucceeded",
            "MXJob m is successfully completed.",
        )


class TestCleaning:
    @cases(
        ("policy", "left"),
        {
            "everything by default": (None, {"ps-0", "worker-0", "worker-1", "worker-2"}),
            "everything": ("None", {"ps-0", "worker-0", "worker-1", "worker-2"}),
            "what has ended": ("Running", {"worker-0"}),
            "nothing": ("All", set()),
        },
    )
    def test_when_a_job_ends_it_leaves(
        self, tfjob: Job, policy: str | None, left: set[str]
    ) -> None:
        run_policy = {"cleanPodPolicy": policy} if policy else None
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 3)}, run_policy)
        names = ("ps-0", "worker-0", "worker-1", "worker-2")
        tfjob.wait_pods(*names)
        tfjob.run("ps-0", "worker-0", "worker-1")
        tfjob.api.bind("j-worker-2", tfjob.namespace, tfjob.namespace)
        tfjob.end("worker-0")
        tfjob.wait_condition("Succeeded")
        tfjob.api.wait_until(
            lambda: {each for each in tfjob.pods() if not tfjob.leaving(each)} == left,
            "others are to go",
        )
        tfjob.api.wait_until(lambda: set(tfjob.services()) == left, "their services are gone")


class TestFailure:
    @pytest.mark.parametrize("role", ["PS", "Worker"])
    def test_one_failed_replica_fails_a_tfjob(self, training: Job, role: str) -> None:
        training.end(f"{role.lower()}-0", 1)
        message = f"TFJob {training.namespace}/j has failed because 1 {role} replica(s) failed."
        assert training.wait_condition("Failed") == ("TFJobFailed", message)
        assert (training.condition("Running") or ("",))[0] == "False"
        assert training.counts(role)["failed"] == 1
        assert "completionTime" in training.status()
        training.api.wait_until(
            lambda: ("Normal", "TFJobFailed", message) in training.events(), "an Event says so"
        )

    def test_one_failed_replica_fails_an_mxjob(self, mxjob: Job) -> None:
        mxjob.create(mxnet(1, 1))
        mxjob.wait_pods("scheduler-0", "server-0", "worker-0")
        mxjob.run("scheduler-0", "server-0", "worker-0")
        mxjob.end("server-0", 3)
        message = "mxjob m is failed because 1 Server replica(s) failed."
        assert mxjob.wait_condition("Failed") == ("MXJobFailed", message)

    def test_a_failed_job_stays_failed(self, training: Job) -> None:
        training.end("worker-1", 1)
        training.wait_condition("Failed")
        before = training.status()["conditions"]
        training.end("worker-0")
        training.suspend()
        training.api.holds(
            lambda: training.status()["conditions"] == before, "its conditions are what they were"
        )

    def test_a_running_pod_that_is_deleted_has_failed(self, training: Job) -> None:
        training.api.core.delete_namespaced_pod("j-worker-1", training.namespace)
        _, message = training.wait_condition("Failed")
        assert message.endswith("has failed because 1 Worker replica(s) failed.")

    def test_one_that_is_deleted_without_grace_has_failed_or_is_recreated(
        self, training: Job
    ) -> None:
        """It is deleted and gone at once: the operator may or may not see it in between."""
        before = training.pods()["worker-1"].metadata.uid
        training.api.core.delete_namespaced_pod(
            "j-worker-1", training.namespace, grace_period_seconds=0
        )

        def outcome() -> bool:
            pod = training.pods().get("worker-1")
            again = pod is not None and pod.metadata.uid != before
            return again or training.condition("Failed") is not None

        training.api.wait_until(outcome, "the job has failed, or its worker is made again")

    def test_also_where_failed_pods_are_restarted(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 1, "OnFailure")})
        tfjob.wait_pods("ps-0", "worker-0")
        tfjob.run("ps-0", "worker-0")
        tfjob.wait_condition("Running")
        tfjob.api.core.delete_namespaced_pod("j-worker-0", tfjob.namespace)
        tfjob.wait_condition("Failed")

    def test_a_job_whose_container_has_another_name_is_invalid(
        self, tfjob: Job, refuses_early: bool
    ) -> None:
        spec = replicas("TFJob", 1)
        spec["template"]["spec"]["containers"][0]["name"] = "main"
        if refuses_early:
            with pytest.raises(ApiException, match="at least one container with name tensorflow"):
                tfjob.create({"Worker": spec})
            return
        tfjob.create({"Worker": spec})
        sentence = (
            "TFJob failed validation because TFJobSpec is not valid: There is no container "
            "named tensorflow in Worker"
        )
        expected = ("Warning", "TFJobFailedValidation", sentence)
        tfjob.api.wait_until(lambda: expected in tfjob.events(), "an Event says so")
        assert tfjob.pods() == {}


class TestRestarting:
    @cases(("policy", "exit_code"), {"on failure": ("OnFailure", 1), "always": ("Always", 1)})
    def test_a_failed_pod_is_replaced(self, tfjob: Job, policy: str, exit_code: int) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 1, policy)})
        tfjob.wait_pods("ps-0", "worker-0")
        tfjob.run("ps-0", "worker-0")
        tfjob.wait_condition("Running")
        before = tfjob.pods()["worker-0"].metadata.uid
        tfjob.end("worker-0", exit_code)
        sentence = "job j is restarting because Worker replica(s) failed."
        assert tfjob.wait_condition("Restarting") == ("TFJobRestarting", sentence)
        assert tfjob.condition("Running") is None
        tfjob.wait_made_again("worker-0", before)
        tfjob.run("worker-0")
        tfjob.wait_condition("Running")
        assert (tfjob.condition("Restarting"), tfjob.condition("Failed")) == (None, None)
