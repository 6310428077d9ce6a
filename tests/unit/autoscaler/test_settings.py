"""The autoscaler's settings: flags, environment, and every problem named at once."""

from dataclasses import fields
from pathlib import Path

import pytest

from autoscaler.settings import Settings, fairness_of, parse, parse_budget
from extender import settings as extender_settings
from optimus.allocation.fairness import PROPORTIONAL, Fairness
from optimus.resources import Resources
from optimus.runtime.settings import SettingsError


def test_defaults_are_those_of_the_dataclass() -> None:
    assert parse([], {}) == Settings()


def test_a_flag_wins_over_the_environment() -> None:
    environment = {"OPTIMUS_INTERVAL_SECONDS": "30", "OPTIMUS_DRY_RUN": "true"}
    settings = parse(["--interval-seconds", "20", "--kubeconfig", "/some/where"], environment)
    assert (settings.interval_seconds, settings.dry_run, settings.kubeconfig) == (
        20.0,
        True,
        Path("/some/where"),
    )


def test_a_switch_needs_no_value() -> None:
    assert parse(["--once"], {}).once
    assert not parse(["--once=false"], {"OPTIMUS_ONCE": "true"}).once


def test_every_wrong_value_is_named_in_one_message() -> None:
    with pytest.raises(SettingsError) as raised:
        parse(["--interval-seconds", "soon", "--log-readers", "-1"], {"OPTIMUS_DRY_RUN": "maybe"})
    lines = str(raised.value).splitlines()
    assert [line.split()[0] for line in lines] == [
        "--dry-run",
        "--interval-seconds",
        "--log-readers",
    ]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            ["--policy", "best"],
            "--policy 'best': drf, fifo, optimus, optimus-paper or tetris is expected",
            id="a policy that does not exist",
        ),
        pytest.param(
            ["--listen", "8080"], "ADDRESS:PORT is expected", id="a port without an address"
        ),
        pytest.param(
            ["--node-selector", "pool"], "key=value,... is expected", id="a label without a value"
        ),
        pytest.param(
            ["--node-selector", "=x"], "key=value,... is expected", id="a value without a label"
        ),
        pytest.param(
            ["--node-selector", "a = b"], "key=value,... is expected", id="blanks around the sign"
        ),
        pytest.param(
            ["--node-selector", "a=b,"], "key=value,... is expected", id="a comma too many"
        ),
        pytest.param(
            ["--node-selector", "a==b"], "key=value,... is expected", id="a sign too many"
        ),
        pytest.param(["--node-selector", "a!=b"], "key=value,... is expected", id="all but one"),
        pytest.param(["--node-selector", "pool in (a)"], "key=value,... is expected", id="a set"),
        pytest.param(
            ["--node-kind-label", "cpu kind"], "the key of a label is expected", id="no label"
        ),
        pytest.param(["--operator-version", "v1"], "such as 1.8.1", id="half a version"),
        pytest.param(["--tick-seconds", "0"], "more than 0 is expected", id="a beat of nothing"),
        pytest.param(["--interval-seconds", "inf"], "0 or more, is expected", id="never"),
    ],
)
def test_a_wrong_value_gets_expected(arguments: list[str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        parse(arguments, {})


@pytest.mark.parametrize(
    "selector",
    [
        "",
        "optimus.dl/pool=training",
        "a=b,c=d",
        "gpu=",
        "kubernetes.io/os=linux,node-role.kubernetes.io/w_1=",
    ],
)
def test_a_selector_by_equality_is_taken(selector: str) -> None:
    assert parse(["--node-selector", selector], {}).node_selector == selector


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        pytest.param("OPTIMUS_DRYRUN", "OPTIMUS_DRY_RUN", id="a line too few"),
        pytest.param("OPTIMUS_INTERVAL_SECOND", "OPTIMUS_INTERVAL_SECONDS", id="a letter too few"),
        pytest.param("OPTIMUS_NODE-SELECTOR", "OPTIMUS_NODE_SELECTOR", id="as the flag is written"),
        pytest.param("optimus_once", "OPTIMUS_ONCE", id="in small letters"),
        pytest.param("OPTIMUS_LOG_LEVLE", "OPTIMUS_LOG_LEVEL", id="letters in another order"),
    ],
)
def test_a_misspelt_variable_is_refused(variable: str, meant: str) -> None:
    with pytest.raises(
        SettingsError, match=rf"{variable}: unknown setting; did you mean {meant}\?"
    ):
        parse([], {variable: "1"})


def test_variables_of_other_programs_are_ignored() -> None:
    service = {
        f"OPTIMUS_{name}": "x"
        for program in ("AUTOSCALER", "SCHEDULER")
        for name in (
            f"{program}_SERVICE_HOST",
            f"{program}_SERVICE_PORT",
            f"{program}_PORT",
            f"{program}_PORT_80_TCP",
        )
    }
    extender = {
        f"OPTIMUS_EXTENDER_{field.name.upper()}": "x"
        for field in fields(extender_settings.Settings)
    }
    others = (
        service
        | extender
        | {"OPTIMUS_REQUIRE_E2E": "1", "OPTIMUS_LOCALCLUSTER_BINARIES": "/b", "DRYRUN": "1"}
    )
    assert parse([], others) == Settings()
    assert extender_settings.parse([], service) == extender_settings.Settings()


def test_every_setting_is_explained_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"], {})
    text = capsys.readouterr().out
    for field in fields(Settings):
        assert "--" + field.name.replace("_", "-") in text


def test_a_budget_may_be_given_for_each_namespace() -> None:
    budgets = ("ml:cpu=40,nvidia.com/gpu=8", "vision:memory=64Gi")
    flags = [part for each in budgets for part in ("--namespace-budget", each)]
    assert parse(flags, {}).namespace_budget == budgets
    assert parse([], {"OPTIMUS_NAMESPACE_BUDGET": "; ".join(budgets)}).namespace_budget == budgets
    amounts = {"requests.cpu": 40_000, "requests.nvidia.com/gpu": 8}
    assert parse_budget(budgets[0]) == ("ml", Resources(amounts))


@pytest.mark.parametrize(
    "budgets",
    [
        ["cpu=40"],
        ["ml:"],
        ["ml:cpu"],
        ["ml:cpu=many"],
        ["ml:cpu=0"],
        ["ml:cpus=4"],
        ["ml:cpu=4", "ml:cpu=5"],
    ],
)
def test_what_is_no_budget_is_refused_with_an_example(budgets: list[str]) -> None:
    with pytest.raises(SettingsError, match=r"--namespace-budget .*NAMESPACE:cpu=40.*expected"):
        parse([part for each in budgets for part in ("--namespace-budget", each)], {})


def test_by_default_the_logarithms_count_and_for_other_policies_the_seconds() -> None:
    assert fairness_of(parse([], {})) == Fairness(PROPORTIONAL)
    assert fairness_of(parse(["--fairness", "0"], {})) == Fairness(0.0)
    assert fairness_of(parse(["--policy", "drf"], {})) is None


@pytest.mark.parametrize("fairness", ["", "-1", "nan", "inf", "Log", "much"])
def test_what_is_no_fairness_is_refused(fairness: str) -> None:
    with pytest.raises(SettingsError, match=r"--fairness .*log, or a number such as 1"):
        parse([f"--fairness={fairness}"], {})


def test_weights_and_fairness_are_the_objective() -> None:
    flags = ["--fairness", "1", "--namespace-weight", "ml=2", "--namespace-weight", "vision=0.5"]
    found = fairness_of(parse([*flags, "--priority-weight", "high=3"], {}))
    assert found == Fairness(1.0, {"ml": 2.0, "vision": 0.5}, {"high": 3.0})
    by_variable = {"OPTIMUS_NAMESPACE_WEIGHT": "ml=2;vision=0.5"}
    assert fairness_of(parse([], by_variable)) == Fairness(PROPORTIONAL, {"ml": 2.0, "vision": 0.5})


@pytest.mark.parametrize("flag", ["--namespace-weight", "--priority-weight"])
@pytest.mark.parametrize("weight", ["ml", "ml=0", "ml=-1", "ml=nan", "ml=inf", "=2", "ml=much"])
def test_what_is_no_weight_is_refused(flag: str, weight: str) -> None:
    with pytest.raises(SettingsError, match=rf"{flag} .*NAME=2 with a number above 0"):
        parse([flag, weight], {})
    with pytest.raises(SettingsError, match="once for each name"):
        parse([flag, "ml=2", flag, "ml=3"], {})


def test_a_policy_that_preempts_is_refused_with_its_trait() -> None:
    refused = r"--policy 'srtf': the policy pauses running jobs so that others run \(its trait "
    refused += r"preempts\), which the autoscaler does not do; .* optimus-paper or tetris is"
    with pytest.raises(SettingsError, match=refused):
        parse(["--policy", "srtf"], {})


def test_of_a_policy_that_needs_more_than_one_thing_all_are_named() -> None:
    refused = r"--policy 'gavel-las': the policy pauses running jobs .* \(its trait preempts\) and "
    refused += r"lets jobs take turns on the same nodes \(its trait time_shared\), which"
    with pytest.raises(SettingsError, match=refused):
        parse(["--policy", "gavel-las"], {})


@pytest.mark.parametrize("policy", ["drf", "fifo", "optimus", "optimus-paper", "tetris"])
def test_a_policy_that_only_chooses_counts_is_run(policy: str) -> None:
    assert parse(["--policy", policy], {}).policy == policy


def test_fairness_is_of_one_policy_alone() -> None:
    with pytest.raises(SettingsError, match=r"--policy 'drf': optimus, the only policy"):
        parse(["--policy", "drf", "--fairness", "1"], {})
