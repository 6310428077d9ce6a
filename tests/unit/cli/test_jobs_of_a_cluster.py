"""What the commands that ask a cluster for jobs make of what the API server holds."""

import argparse
import json
from dataclasses import replace
from typing import Any

import pytest

from optimus.allocation import Policy
from optimus.cli import job_forecast, status, what_if
from optimus.cli.assumptions import Assumed
from optimus.cli.cluster import sentence_of
from optimus.cli.command import INCOMPLETE, Answer, BadInput
from optimus.cli.job_facts import JobReader
from optimus.cli.job_list import list_jobs
from optimus.cli.job_view import view_of
from optimus.cli.main import main
from optimus.cli.snapshot_reader import cluster_or_reason
from optimus.interval import IntervalConfig
from optimus.interval.decision_settings import DecisionSettings
from optimus.kube.errors import ErrorKind, KubeError
from optimus.kube.job_kinds import ANY_KIND
from optimus.kube.stored_settings import ClusterSettings
from tests.cases import cases
from tests.harness.jobsets import jobset_json, train_steps
from tests.unit.cli.fake_api import FakeApi, pod, profile, refusal, stored_state
from tests.unit.kube.job_json import job_json

TRAINS: dict[str, Any] = {
    "loss": 0.4,
    "goal": "loss <= 0.15",
    "progressPercent": 62,
    "stepsPerSecond": 1.5,
    "reason": "more than 4 workers would save less than 0.5 % of the remaining time",
    "rescales": 2,
    "remainingSeconds": 900,
}


def listed(api: FakeApi, namespace: str | None = "ns") -> Answer:
    return status.overview(list_jobs(api, namespace), namespace)


def shown(api: FakeApi) -> Answer:
    return status.in_full(JobReader(api).read("ns", "j"))


def training(**fields: Any) -> FakeApi:
    state = stored_state(prices=(40.0, 50.0), moves=(1_767_225_600.0,))
    return FakeApi(profiles=[profile(state=state, **TRAINS)], pods=[pod(0), pod(1)], **fields)


def test_the_list_shows_phase_counts_loss_goal_end_and_cpu() -> None:
    answer = listed(training())
    first, _, headings, row, *_ = answer.text.splitlines()
    assert first == "1 job: 1 Training; they hold 5 cpu"
    assert headings.split() == [
        *("job", "phase", "PS", "workers", "loss", "goal", "done", "end", "(UTC)", "cpu")
    ]
    assert row.startswith("j    Training   2        4  0.4   loss <= 0.15  62 %  ")
    assert row.endswith("5")
    (job,) = answer.value["jobs"]  # type: ignore[index]
    assert (job["ps"], job["workers"], job["held"]["cpu"]) == (2, 4, 5.0)
    # That of the profile: nothing is fitted for a list.
    assert job["end"] == {"median": "2026-01-01T00:19:00Z", "low": None, "high": None}
    assert "  00:19        5" in row


def test_a_job_without_parameter_servers_is_shown_by_what_trains_and_without_their_column() -> None:
    job = job_json(target_loss="0.2")
    worker = job["spec"].pop("tfReplicaSpecs")["Worker"]
    roles = {"Master": {**worker, "replicas": 1}, "Worker": {**worker, "replicas": 3}}
    job |= {"kind": "PyTorchJob", "spec": {"pytorchReplicaSpecs": roles}}
    api = FakeApi(jobs=[job], missing=())
    answer = listed(api)
    assert answer.text.splitlines()[2].split() == ["job", "phase", "workers", "cpu"]
    assert "  1 master + 3 workers  " in answer.text
    assert "counts  1 master + 3 workers" in shown(api).text
    (found,) = answer.value["jobs"]  # type: ignore[index]
    assert (found["workers"], found["trainers"]) == (3, 4)


def endless() -> FakeApi:
    """A job whose end is in a year of five digits."""
    other = job_json()
    other["metadata"] |= {"name": "other", "uid": "o"}
    jobs = [job_json(target_epochs="99999999999"), other]
    endless = {**TRAINS, "remainingSeconds": 10**12}
    return FakeApi(jobs=jobs, profiles=[profile(state=stored_state(), **endless)])


def test_a_job_without_end_harms_no_other() -> None:
    answer = listed(endless())
    assert "after 9999" in answer.text
    assert "other" in answer.text
    job = answer.value["jobs"][0]  # type: ignore[index]
    assert job["end"]["median"] == "9999-12-31T23:59:59Z"
    assert "end       after 9999" in shown(endless()).text
    view = view_of(endless(), "ns", "j")
    assert "after 9999" in job_forecast.answer_of(view).text
    asked = what_if.asked_counts(view, None, what_if.change("+1"))
    assert (
        "after 9999" in what_if.answer_of(view, asked, "no right", Assumed(ClusterSettings())).text
    )


def test_the_list_of_all_namespaces_names_them_and_has_no_empty_column() -> None:
    assert listed(training(), None).text.splitlines()[2].startswith("namespace  job")
    bare = listed(FakeApi(jobs=[job_json()])).text.splitlines()[2]
    assert bare.split() == ["job", "phase", "PS", "workers", "cpu"]


@cases(
    ("seconds", "said"), {"more": (4, "has saved 4 s"), "less": (-3, "has made them end 3 s later")}
)
def test_the_list_says_what_moving_has_brought(seconds: int, said: str) -> None:
    api = training()
    books = {"text": "", "savedSeconds": seconds, "savedFraction": 0.1}
    api.profiles = [profile(**TRAINS, books=books)]
    assert f"moving 1 of them {said}" in listed(api).text


def test_the_list_shows_the_target_of_a_rescale_and_a_pause() -> None:
    api = training(jobs=[job_json(target_loss="0.2", pause="true")])
    api.profiles = [profile(**TRAINS, phase="Starting", targetPs=2, targetWorkers=6)]
    row = listed(api).text.splitlines()[3]
    assert row.startswith("j    Starting, paused   2   4 to 6")


def test_jobs_without_a_goal_or_a_profile_are_said_to_be_so() -> None:
    assert "1 NotManaged" in listed(FakeApi(jobs=[job_json()])).text
    assert "1 NoProfile" in listed(FakeApi()).text
    assert (
        "no goal: the annotation optimus.dl/target-loss" in shown(FakeApi(jobs=[job_json()])).text
    )
    assert "has no TrainingProfile yet" in shown(FakeApi()).text
    never = jobset_json("j", *train_steps(2), annotations={"optimus.dl/target-loss": "0.2"})
    api = FakeApi(jobs=[{**never, "kind": "JobSet"}], missing=("tfjobs", "mxjobs", "pytorchjobs"))
    assert "1 NotManaged" in listed(api).text
    said = "it is only placed, as a JobSet is never resized; optimus advise j tells"
    assert said in shown(api).text
    assert said in job_forecast.answer_of(view_of(api, "ns", "j")).text


def test_a_profile_of_another_job_of_the_name_counts_for_nothing() -> None:
    assert "NoProfile" in listed(FakeApi(profiles=[profile(uid="other", **TRAINS)])).text


def test_a_profile_that_may_not_be_read_is_not_said_to_be_missing() -> None:
    api = training(forbidden=["trainingprofiles"])
    assert "1 NotReadable" in listed(api).text
    assert "has no TrainingProfile" not in listed(api).text
    text = shown(api).text
    assert text.startswith("TFJob ns/j: NotReadable")
    assert "has no TrainingProfile" not in text


def test_what_cannot_be_decoded_hides_nothing_else() -> None:
    api = training()
    api.profiles = [{"metadata": {"name": "odd"}, "spec": 5}, *(api.profiles or ())]
    api.pods = [{"metadata": 5}, *api.pods]
    found = list_jobs(api, "ns")
    assert "62 %" in listed(api).text
    assert "they hold 5 cpu" in listed(api).text
    assert len(found.not_readable) == 2
    text = shown(api).text
    assert "2 pods on 1 node" in text
    assert "incomplete  " in text


@pytest.mark.parametrize("name", ["..", ".", "", "../../pods/p", "a/b", "a%2fb"])
def test_a_name_does_not_lead_to_another_object(name: str) -> None:
    with pytest.raises(KubeError, match="cannot be the name of an object"):
        JobReader(training()).job("ns", name)
    if name:  # without a namespace the jobs of all are meant
        with pytest.raises(KubeError, match="cannot be the name of an object"):
            list_jobs(training(), name)


def test_no_jobs_is_a_sentence() -> None:
    text = listed(FakeApi(jobs=[])).text
    assert text == f"there is no {ANY_KIND} in namespace ns; -A shows all"


def test_without_the_crd_of_profiles_the_command_that_installs_it_is_named() -> None:
    api = FakeApi(missing=["mxjobs", "trainingprofiles"])
    assert "kubectl apply --server-side -k manifests/crds" in listed(api).text


@cases(
    ("api", "part"),
    {
        "no operator": (
            FakeApi(missing=["tfjobs", "mxjobs", "pytorchjobs", "jobsets"]),
            "neither TFJobs nor MXJobs",
        ),
        "no right to jobs": (FakeApi(forbidden=["tfjobs"]), "cannot list resource"),
    },
)
def test_without_jobs_to_read_there_is_one_sentence(api: FakeApi, part: str) -> None:
    with pytest.raises(KubeError, match=part):
        list_jobs(api, "ns")


def test_status_shows_the_decision_the_rescales_and_the_samples() -> None:
    answer = shown(training())
    text = answer.text
    assert text.startswith("TFJob ns/j: Training\n")
    for part in (
        "counts    2 PS + 4 workers",
        "why       more than 4 workers would save less",
        "(decided at 00:04 UTC)",
        "loss      0.4, 62 % done",
        "rescales  2, the last at 00:00 UTC; a restart takes 45 s",
        "holds     5 cpu, 2 Gi memory: 2 pods on 1 node",
        "speeds measured, newest first:",
    ):
        assert part in text, part
    value = json.loads(json.dumps(answer.value, allow_nan=False))
    assert len(value["samples"]) == 5
    assert value["rescaleSeconds"] == [40.0, 50.0]


def test_status_says_whether_a_job_is_trusted_to_save_when_it_is_stopped() -> None:
    trusted = {**TRAINS, "savesOnStop": "yes: its user says so", "state": stored_state()}
    text = shown(FakeApi(profiles=[profile(**trusted)])).text
    assert "saves on stop  yes: its user says so" in text


def test_status_of_a_job_without_a_forecast_says_why() -> None:
    api = FakeApi(
        profiles=[profile(state=stored_state(epochs=1), **{**TRAINS, "remainingSeconds": None})]
    )
    assert "end       not known: " in shown(api).text


def test_the_figure_of_the_profile_is_shown_where_it_rests_on_earlier_runs() -> None:
    stored = {**TRAINS, "earlierRuns": 3, "remainingSeconds": 600, "state": stored_state()}
    assert "00:14 UTC, in 9 min" in shown(FakeApi(profiles=[profile(**stored)])).text


@pytest.mark.parametrize("state", ["", "!", "AAAA", stored_state()[:40]])
def test_an_unreadable_state_costs_only_the_forecast(state: str) -> None:
    assert "62 %" in listed(FakeApi(profiles=[profile(**TRAINS, state=state)])).text


def test_the_overview_names_what_needs_attention() -> None:
    waits = {"phase": "Waiting", "reason": "waits: 4 workers of 1 cpu lack a place"}
    stored = profile(**waits, complaint="its log has no epochs", straggler="worker 3 is slow")
    found = status.overview(list_jobs(FakeApi(profiles=[stored]), "ns"), "ns")
    for part in ("lack a place", "its log has no epochs", "worker 3 is slow"):
        assert part in found.text
    calm = status.overview(list_jobs(training(), "ns"), "ns")
    assert "nothing needs attention" in calm.text


@pytest.mark.parametrize("command", [["status"], ["status", "j"]])
def test_without_a_cluster_there_is_one_line(
    command: list[str], tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--kubeconfig", str(tmp_path / "none")]) == 1
    found = capsys.readouterr()
    assert found.out == ""
    assert f"optimus: {command[0]}: there is no kubeconfig file" in found.err
    path = tmp_path / "config"
    cluster = {"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}
    context = {"name": "c", "context": {"cluster": "c", "user": "u"}}
    users = [{"name": "u", "user": {}}]
    config = {"clusters": [cluster], "contexts": [context], "users": users}
    path.write_text(json.dumps({**config, "apiVersion": "v1", "current-context": "c"}))
    assert main([*command, "--kubeconfig", str(path)]) == 1
    said = capsys.readouterr().err
    assert "no connection to the API server" in said
    assert "kubectl cluster-info" in said
    assert main([*command, "--kubeconfig", str(path), "--context", "other"]) == 1
    assert "other" in capsys.readouterr().err


# --- what-if and forecast


def asked(api: FakeApi, change: str, ps: str | None = None) -> Answer:
    view = view_of(api, "ns", "j")
    counts = what_if.asked_counts(
        view, None if ps is None else what_if.change(ps), what_if.change(change)
    )
    assumed = Assumed.of([view], "ns", None)
    return what_if.answer_of(view, counts, cluster_or_reason(api, assumed.settings, "ns"), assumed)


def node(name: str, cpu: str) -> dict[str, Any]:
    allocatable = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable}}


def test_what_if_shows_both_ends_the_price_and_what_is_requested_more() -> None:
    api = training(nodes=[node("n", "64")])
    answer = asked(api, "+4")
    value: dict[str, Any] = json.loads(json.dumps(answer.value, allow_nan=False))
    assert (value["now"]["workers"], value["then"]["workers"]) == (4, 8)
    assert value["rescaleSeconds"] == 50
    assert value["fits"] is True
    left = [value[each]["remainingSeconds"] for each in ("now", "then")]
    assert value["savesSeconds"] == pytest.approx(left[0]["median"] - left[1]["median"], abs=0.2)
    for part in (
        "TFJob ns/j at 2 PS + 8 workers instead of 2 PS + 4 workers:",
        "50 s for the restart included",
        "It requests 4 cpu more.",
        "The nodes have a place for it now",
    ):
        assert part in answer.text, part


def decides(policy: Policy | None = None, **interval: Any) -> ClusterSettings:
    decision = DecisionSettings(interval=IntervalConfig(**interval))
    return ClusterSettings(decision if policy is None else replace(decision, policy=policy))


def under(settings: ClusterSettings | None, *nodes: dict[str, Any], **record: Any) -> FakeApi:
    """A job that is decided by these settings."""
    stored = profile(state=stored_state(settings=settings, **record), **TRAINS)
    pods = [pod(0), pod(1)]
    for index, each in enumerate(pods):
        each["metadata"]["labels"] = {
            "training.kubeflow.org/job-name": "j",
            "training.kubeflow.org/replica-type": "worker",
            "training.kubeflow.org/replica-index": str(index),
        }
    return FakeApi(profiles=[stored], pods=pods, nodes=nodes or [node("n", "64")])


def test_what_if_says_that_it_assumes_the_defaults_where_none_are_stored() -> None:
    found = asked(under(None), "+4")
    assert found.value["rescaleSeconds"] == 60.0  # type: ignore[index]
    assert "No profile has the settings by which the autoscaler decides; the default" in found.text


def test_what_if_asks_the_nodes_of_the_autoscaler() -> None:
    pool = node("p", "9")
    pool["metadata"]["labels"] = {"pool": "training"}
    others, own = node("n", "64"), replace(decides(), node_selector="pool=training")
    assert asked(under(decides(), others, pool), "+40").value["fits"] is True  # type: ignore[index]
    assert asked(under(own, others, pool), "+40").value["fits"] is False  # type: ignore[index]


def test_what_if_says_that_nodes_have_no_place_or_may_not_be_read() -> None:
    assert "have no place for it as a whole" in asked(training(nodes=[node("n", "8")]), "40").text
    found = asked(training(forbidden=["nodes"]), "+4")
    assert "Whether nodes hold it is not known: you may not list nodes at the" in found.text
    assert found.status == INCOMPLETE
    assert found.value["fits"] is None  # type: ignore[index]


def test_what_if_of_fewer_and_of_forbidden_counts() -> None:
    api = training(jobs=[job_json(target_loss="0.2", min_workers="3", max_workers="5")])
    found = asked(api, "-2")
    assert "It requests 2 cpu less." in found.text
    assert "it may have no fewer than 1 PS + 3 workers." in found.text
    with pytest.raises(BadInput, match="at least 1 PS and 1 worker"):
        asked(api, "-4")
    with pytest.raises(BadInput, match="at most 10,000 PSs and workers can be asked about"):
        asked(api, "+99999")


@pytest.mark.parametrize("text", ["", "x", "+", "1.5", "++1", "1e3", "٣"])
def test_counts_that_are_no_number_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="a number such as 8, or a difference"):
        what_if.change(text)


def test_what_if_without_a_profile_says_so() -> None:
    found = asked(FakeApi(), "+4")
    assert found.status == 1
    assert "there is no forecast: the job has no TrainingProfile" in found.text


def test_the_forecast_of_a_job_has_its_interval_in_epochs_and_in_time() -> None:
    found = job_forecast.answer_of(view_of(training(), "ns", "j"))
    value: dict[str, Any] = json.loads(json.dumps(found.value, allow_nan=False))
    assert value["unit"] == "epochs"
    assert 14 < value["low"] < value["predicted"] < value["high"]
    assert "goal: loss <= 0.15; now: loss 0.4" in found.text
    assert "it is met after " in found.text
    assert "at 2 PS + 4 workers: " in found.text
    assert "with a probability of 90 % by " in found.text


@cases(
    ("api", "part"),
    {
        "no profile": (FakeApi(), "it has no TrainingProfile yet"),
        "no goal": (FakeApi(jobs=[job_json()]), "it has no goal"),
        "too few epochs": (
            FakeApi(profiles=[profile(state=stored_state(epochs=1))]),
            "there is no forecast: ",
        ),
        "no state": (FakeApi(profiles=[profile()]), "stores no training yet"),
    },
)
def test_a_job_without_a_forecast_says_why(api: FakeApi, part: str) -> None:
    assert part in job_forecast.answer_of(view_of(api, "ns", "j")).text


def test_a_log_needs_a_goal_and_a_job_a_cluster(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "a.log"
    log.write_text("epoch=1 loss=2\n")
    assert main(["forecast", str(log)]) == 1
    assert "--target-loss, --target or --threshold is needed" in capsys.readouterr().err
    assert main(["forecast", "j", "--kubeconfig", str(tmp_path / "none")]) == 1
    assert "there is no kubeconfig file" in capsys.readouterr().err


IN_NS = "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"


@cases(
    ("error", "everywhere", "sentence"),
    {
        "jobs of a namespace": (
            refusal("list tfjobs", "read", IN_NS),
            False,
            (
                "you may not list tfjobs.kubeflow.org in namespace ns; ask an administrator for the"
                " ClusterRole view, which has these rights once manifests/user-roles/rbac.yaml is "
                "applied"
            ),
        ),
        "a change": (
            refusal("annotate TFJob ns/j", "patch", f"{IN_NS}/j"),
            False,
            (
                "you may not patch tfjobs.kubeflow.org in namespace ns; ask an administrator for "
                "the ClusterRole edit, which has these rights once manifests/user-roles/rbac.yaml "
                "is applied"
            ),
        ),
        "jobs of all namespaces": (
            refusal("list tfjobs", "read", "/apis/kubeflow.org/v1/tfjobs"),
            True,
            (
                "you may not list tfjobs.kubeflow.org at the cluster scope; without -A the jobs of "
                "one namespace are asked for"
            ),
        ),
        "the whole cluster": (
            refusal("list nodes", "read", "/api/v1/nodes"),
            False,
            (
                "you may not list nodes at the cluster scope: this question is about the whole "
                "cluster; ask an operator, or on the page"
            ),
        ),
        "nobody": (
            KubeError(ErrorKind.FORBIDDEN, "cannot list tfjobs: Unauthorized (HTTP 401)"),
            False,
            (
                "cannot list tfjobs: Unauthorized (HTTP 401); the API server does not accept the"
                " credentials of this context"
            ),
        ),
        "another reason": (
            KubeError(ErrorKind.FORBIDDEN, "cannot list tfjobs: a policy says no (HTTP 403)"),
            False,
            "cannot list tfjobs: a policy says no (HTTP 403)",
        ),
    },
)
def test_a_missing_right_is_one_sentence_that_says_what_helps(
    error: KubeError, everywhere: bool, sentence: str
) -> None:
    assert sentence_of(error, everywhere=everywhere) == sentence


def test_all_rights_that_are_lacking_are_one_sentence() -> None:
    api = training(forbidden=["pods", "trainingprofiles"])
    for answer in (listed(api), shown(api)):
        assert answer.text.count("you may not") == 1
        assert answer.text.count("manifests/user-roles/rbac.yaml") == 1
        assert answer.status == INCOMPLETE
        assert len(answer.value["notReadable"]) >= 2  # type: ignore[index]
    assert "holds" not in shown(api).text
    assert "nothing needs attention" not in listed(api).text
