"""Suspending, resuming, and what becomes of a running job whose counts are edited."""

from tests.conformance.operator.jobs import Job, mxnet, replicas

ALL = ("ps-0", "worker-0", "worker-1")


class TestSuspending:
    def test_suspending_deletes_pods_and_services_without_a_failure(self, training: Job) -> None:
        training.suspend()
        assert training.wait_condition("Suspended") == ("TFJobSuspended", "TFJob j is suspended.")
        assert training.condition("Running") == ("False", "TFJobSuspended", "TFJob j is suspended.")
        training.api.wait_until(lambda: all(map(training.leaving, ALL)), "its pods are told to go")
        training.api.wait_until(lambda: training.services() == {}, "its services are gone")
        training.gone(*ALL)
        training.api.holds(lambda: not training.pods(), "no pod is made while it is suspended")
        assert training.condition("Failed") is None

    def test_nothing_counts_as_active_while_pods_are_still_there(self, training: Job) -> None:
        training.suspend()
        training.wait_condition("Suspended")
        training.api.wait_until(lambda: all(map(training.leaving, ALL)), "its pods are told to go")
        assert (training.counts("PS"), training.counts("Worker")) == ({}, {})

    def test_pods_that_fail_while_they_go_do_not_fail_the_job(self, training: Job) -> None:
        training.suspend()
        training.wait_condition("Suspended")
        training.end("worker-1", 143)
        training.api.holds(lambda: training.condition("Failed") is None, "the job has not failed")
        training.gone(*ALL)
        assert (training.condition("Suspended") or ("",))[0] == "True"

    def test_a_job_that_is_made_suspended_has_no_pods(self, tfjob: Job) -> None:
        tfjob.create({"Worker": replicas("TFJob", 2)}, {"suspend": True})
        tfjob.wait_condition("Suspended")
        assert tfjob.pods() == {}
        assert "startTime" not in tfjob.status()
        assert tfjob.condition("Running") is None
        tfjob.suspend(False)
        tfjob.wait_pods("worker-0", "worker-1")

    def test_an_mxjob_is_suspended_in_the_same_way(self, mxjob: Job) -> None:
        mxjob.create(mxnet(1, 1))
        names = ("scheduler-0", "server-0", "worker-0")
        mxjob.wait_pods(*names)
        mxjob.run(*names)
        mxjob.wait_condition("Running")
        mxjob.suspend()
        assert mxjob.wait_condition("Suspended") == ("MXJobSuspended", "MXJob m is suspended.")
        mxjob.gone(*names)
        mxjob.wait_pods()


class TestResuming:
    def suspended(self, job: Job) -> None:
        job.suspend()
        job.wait_condition("Suspended")
        job.gone(*ALL)
        job.wait_pods()

    def test_a_job_that_was_emptied_starts_again_with_its_new_counts(self, training: Job) -> None:
        started = training.status()["startTime"]
        self.suspended(training)
        training.patch(
            {
                "runPolicy": {"suspend": False},
                "tfReplicaSpecs": {"PS": {"replicas": 2}, "Worker": {"replicas": 1}},
            }
        )
        names = ("ps-0", "ps-1", "worker-0")
        training.wait_pods(*names)
        assert training.wait_condition("Suspended", "False") == (
            "TFJobResumed",
            "TFJob j is resumed.",
        )
        assert all(
            {role: len(told) for role, told in training.cluster(name).items()}
            == {"ps": 2, "worker": 1}
            for name in names
        )
        assert training.status()["startTime"] >= started
        training.run(*names)
        training.api.wait_until(
            lambda: training.counts("PS") == {"active": 2}, "the new pods are counted"
        )
        training.wait_condition("Running")
        assert training.condition("Failed") is None

    def test_a_pod_that_is_still_leaving_fails_the_resumed_job(self, training: Job) -> None:
        training.suspend()
        training.wait_condition("Suspended")
        training.gone("ps-0", "worker-0")
        training.suspend(False)
        _, message = training.wait_condition("Failed")
        assert message.endswith("has failed because 1 Worker replica(s) failed.")

    def test_a_worker_0_that_ended_well_while_it_was_leaving_completes_the_resumed_job(
        self, training: Job
    ) -> None:
        training.suspend()
        training.wait_condition("Suspended")
        training.end("worker-0", 0)
        training.gone("ps-0", "worker-1")
        training.suspend(False)
        training.wait_condition("Succeeded")


class TestEditingARunningJob:
    def test_added_replicas_get_a_cluster_that_the_others_do_not_have(self, training: Job) -> None:
        training.resize(Worker=3)
        training.wait_pods("ps-0", "worker-0", "worker-1", "worker-2")
        assert {name: len(training.cluster(name)["worker"]) for name in training.pods()} == {
            "ps-0": 2,
            "worker-0": 2,
            "worker-1": 2,
            "worker-2": 3,
        }

    def test_fewer_replicas_fail_the_job(self, training: Job) -> None:
        training.resize(Worker=1)
        training.api.wait_until(
            lambda: training.leaving("worker-1"), "the last worker is being deleted"
        )
        _, message = training.wait_condition("Failed")
        assert message.endswith("has failed because 1 Worker replica(s) failed.")
        assert not training.leaving("worker-0")

    def test_fewer_replicas_of_a_job_that_waits_take_the_last_ones(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 3)})
        tfjob.wait_pods("ps-0", "worker-0", "worker-1", "worker-2")
        tfjob.resize(Worker=1)
        tfjob.wait_pods("ps-0", "worker-0")
        assert tfjob.condition("Failed") is None

    def test_a_pod_that_is_recreated_gets_the_new_cluster(self, tfjob: Job) -> None:
        tfjob.create({"PS": replicas("TFJob", 1), "Worker": replicas("TFJob", 2)})
        before = tfjob.wait_pods("ps-0", "worker-0", "worker-1")["worker-1"].metadata.uid
        tfjob.resize(PS=2)
        tfjob.wait_pods("ps-0", "ps-1", "worker-0", "worker-1")
        tfjob.api.core.delete_namespaced_pod("j-worker-1", tfjob.namespace)
        tfjob.wait_made_again("worker-1", before)
        assert len(tfjob.cluster("worker-1")["ps"]) == 2
        assert len(tfjob.cluster("worker-0")["ps"]) == 1


class TestDynamicWorkers:
    def test_a_task_is_told_of_itself_and_a_worker_of_the_servers_too(self, dynamic: Job) -> None:
        servers = [f"j-ps-0.{dynamic.namespace}.svc:2222"]
        worker = {"2": f"j-worker-2.{dynamic.namespace}.svc:2222"}
        assert dynamic.cluster("ps-0") == {"worker": {}, "ps": servers}
        assert dynamic.cluster("worker-2") == {"worker": worker, "ps": servers}

    def test_workers_come_and_go_while_the_others_stay(self, dynamic: Job) -> None:
        before = {name: pod.metadata.uid for name, pod in dynamic.pods().items()}
        dynamic.resize(Worker=4)
        dynamic.wait_pods("ps-0", "worker-0", "worker-1", "worker-2", "worker-3")
        dynamic.run("worker-3")
        dynamic.resize(Worker=3)
        dynamic.wait_leaving("worker-3")
        dynamic.end("worker-3", 143)
        dynamic.gone("worker-3")
        dynamic.wait_pods("ps-0", "worker-0", "worker-1", "worker-2")
        assert {name: pod.metadata.uid for name, pod in dynamic.pods().items()} == before
        assert dynamic.condition("Failed") is None
        dynamic.wait_condition("Running")

    def test_one_that_leaves_and_ends_well_is_taken_for_the_last_of_a_single_one(
        self, dynamic: Job
    ) -> None:
        for name, left in (("worker-2", 2), ("worker-1", 1)):
            dynamic.resize(Worker=left)
            dynamic.wait_leaving(name)
            assert dynamic.condition("Succeeded") is None
            dynamic.end(name, 0)
            if left == 1:
                dynamic.wait_condition("Succeeded")
            else:
                dynamic.gone(name)
                dynamic.wait_pods("ps-0", "worker-0", "worker-1")
