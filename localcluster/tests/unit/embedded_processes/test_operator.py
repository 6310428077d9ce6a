"""What the operator's stand-in decides; the same rules are asked of the real operator in
tests/conformance/operator."""

from hypothesis import given
from hypothesis import strategies as st

from localcluster.embedded.operator.jobs import MXJOB, PYTORCHJOB, TFJOB, read_job
from localcluster.embedded.operator.reconcile import Create
from localcluster.embedded.operator.status_rules import with_condition
from localcluster.embedded.raw_objects import Json
from tests.cases import cases
from tests.unit.embedded_processes.jobs import (
    NOW,
    OperatorHarness,
    body_of,
    job_of,
    mxjob,
    running,
    tfjob,
)

LATER = "2026-01-01T00:01:00Z"


class TestReading:
    def test_defaults_are_applied(self) -> None:
        body = tfjob({"ps": None, "worker": 2})
        del body["spec"]["tfReplicaSpecs"]["worker"]["restartPolicy"]
        job = job_of(TFJOB, body)
        assert {name: role.replicas for name, role in job.roles.items()} == {"PS": 1, "Worker": 2}
        assert job.roles["Worker"].restart_policy == "Never"
        ports = job.roles["PS"].template["spec"]["containers"][0]["ports"]
        assert ports == [{"name": "tfjob-port", "containerPort": 2222}]
        assert (
            "ports" not in body["spec"]["tfReplicaSpecs"]["ps"]["template"]["spec"]["containers"][0]
        )

    @cases(
        ("change", "why"),
        {
            "no containers": ({"containers": []}, ": containers definition expected in Worker"),
            "another container": (
                {"containers": [{"name": "main", "image": "i"}]},
                ": There is no container named tensorflow in Worker",
            ),
        },
    )
    def test_what_is_not_valid_is_said(self, change: Json, why: str) -> None:
        body = tfjob({"Worker": 1})
        body["spec"]["tfReplicaSpecs"]["Worker"]["template"]["spec"].update(change)
        assert read_job(TFJOB, body) == f"TFJobSpec is not valid{why}"


class TestConditions:
    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["Created", "Running", "Restarting", "Suspended", "Succeeded"]),
                st.booleans(),
            )
        )
    )
    def test_nothing_changes_after_failed(self, steps: list[tuple[str, bool]]) -> None:
        failed = with_condition({}, NOW, "Failed", "F", "")
        status = failed
        for kind, true in steps:
            status = with_condition(status, LATER, kind, "R", "", true=true)
        assert status is failed


class TestCourse:
    def test_nothing_is_done_where_nothing_has_changed(self) -> None:
        harness = running(tfjob({"PS": 1, "Worker": 2}))
        assert harness.look(LATER) == []

    def test_suspension_comes_before_failure(self) -> None:
        harness = running(tfjob({"PS": 1, "Worker": 1}))
        harness.body["spec"]["runPolicy"] = {"suspend": True}
        harness.end("j-ps-0", 1)
        harness.settle()
        assert harness.conditions() == {"Created": "True", "Running": "False", "Suspended": "True"}
        assert all("active" not in counts for counts in harness.status["replicaStatuses"].values())

    def test_an_empty_slot_below_a_pod_beyond_the_count_is_filled(self) -> None:
        harness = OperatorHarness(TFJOB, tfjob({"Worker": 4}))
        harness.settle()
        harness.body["spec"]["tfReplicaSpecs"]["Worker"]["replicas"] = 1
        del harness.pods["j-worker-1"]
        made = [
            action.body["metadata"]["name"]
            for action in harness.look()
            if isinstance(action, Create) and action.body["kind"] == "Pod"
        ]
        assert made == ["j-worker-1"]

    def test_a_single_mxnet_worker_is_the_whole_job(self) -> None:
        harness = running(mxjob({"Worker": 1}), MXJOB)
        assert harness.conditions()["Running"] == "True"
        harness.end("j-worker-0")
        harness.settle()
        assert harness.conditions()["Succeeded"] == "True"


ROLES = st.dictionaries(
    st.sampled_from(["PS", "Worker", "Chief", "Evaluator"]), st.integers(1, 3), min_size=1
)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["run", "end well", "fail", "gone", "suspend", "resume", "resize"]),
        st.integers(0, 8),
    ),
    max_size=12,
)


@given(counts=ROLES, restart=st.sampled_from(["Never", "OnFailure", "Always"]), events=EVENTS)
def test_any_sequence_of_events_ends_in_a_stable_status_and_failed_is_final(
    counts: dict[str, int], restart: str, events: list[tuple[str, int]]
) -> None:
    harness = OperatorHarness(TFJOB, tfjob(counts, restart))
    harness.settle()
    ended: Json = {}
    for event, number in events:
        happen(harness, event, number)
        harness.settle()
        if harness.conditions().get("Failed") == "True":
            ended = ended or harness.status["conditions"]
            assert harness.status["conditions"] == ended
        # Of a suspended job, and of one that has ended, the counts outlive the pods.
        if "True" not in {
            harness.conditions().get(kind) for kind in ("Suspended", "Succeeded", "Failed")
        }:
            total = sum(sum(each.values()) for each in harness.status["replicaStatuses"].values())
            assert total <= len(harness.pods)


def happen(harness: OperatorHarness, event: str, number: int) -> None:
    names = sorted(harness.pods)
    name = names[number % len(names)] if names else ""
    stays = bool(name) and "deletionTimestamp" not in harness.pods[name]["metadata"]
    if event == "run" and stays and harness.pods[name]["status"]["phase"] == "Pending":
        harness.run(name)
    elif event in ("end well", "fail") and name:
        harness.end(name, 0 if event == "end well" else 137)
    elif event == "gone":
        harness.gone()
    elif event in ("suspend", "resume"):
        harness.body["spec"]["runPolicy"] = {"suspend": event == "suspend"}
    elif event == "resize":
        role = min(harness.body["spec"]["tfReplicaSpecs"])
        harness.body["spec"]["tfReplicaSpecs"][role]["replicas"] = 1 + number % 4


class TestPyTorch:
    def variables(self, harness: OperatorHarness, pod: str) -> dict[str, str]:
        (container,) = harness.pods[pod]["spec"]["containers"]
        return {each["name"]: each["value"] for each in container["env"]}

    def test_each_rank_is_told_of_the_world(self) -> None:
        job = running(body_of(PYTORCHJOB, {"Master": 1, "Worker": 2}), PYTORCHJOB)
        assert self.variables(job, "j-worker-1") == {
            "PYTHONUNBUFFERED": "1",
            "MASTER_PORT": "23456",
            "PET_MASTER_PORT": "23456",
            "MASTER_ADDR": "j-master-0",
            "PET_MASTER_ADDR": "j-master-0",
            "WORLD_SIZE": "3",
            "RANK": "2",
            "PET_NPROC_PER_NODE": "auto",
            "PET_NODE_RANK": "2",
            "PET_NNODES": "3",
        }
        assert self.variables(job, "j-master-0")["RANK"] == "0"

    @cases(
        ("restart", "ended", "exit_code", "condition"),
        {
            "the master ends": ("Never", "j-master-0", 0, "Succeeded"),
            "a worker fails": ("Never", "j-worker-0", 1, "Failed"),
            "a worker fails and is started again": ("OnFailure", "j-worker-0", 1, "Running"),
        },
    )
    def test_what_becomes_of_the_job(
        self, restart: str, ended: str, exit_code: int, condition: str
    ) -> None:
        job = running(body_of(PYTORCHJOB, {"Master": 1, "Worker": 1}, restart), PYTORCHJOB)
        job.end(ended, exit_code)
        job.settle()
        assert job.conditions()[condition] == "True"
