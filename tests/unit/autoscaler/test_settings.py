"""The autoscaler's settings: flags, environment, and every problem named at once."""

from dataclasses import replace
from pathlib import Path

import pytest

from autoscaler.settings import Settings, fairness_of, parse
from extender import settings as extender_settings
from optimus.allocation.fairness import PROPORTIONAL, Fairness
from optimus.runtime.settings import SettingsError, flag_fields
from tests.cases import cases


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
        parse(["--interval-seconds", "soon", "--listen", "1"], {"OPTIMUS_DRY_RUN": "maybe"})
    lines = str(raised.value).splitlines()
    assert [line.split()[0] for line in lines] == ["--dry-run", "--interval-seconds", "--listen"]


@cases(
    ("arguments", "sentence"),
    {
        "a policy that does not exist": (
            ["--policy", "best"],
            "--policy 'best': dl2, drf, .*optimus, .*tetris is expected",
        ),
        "a port without an address": (["--listen", "8080"], "ADDRESS:PORT is expected"),
        "a label without a value": (["--node-selector", "pool"], "key=value,... is expected"),
        "a value without a label": (["--node-selector", "=x"], "key=value,... is expected"),
        "blanks around the sign": (["--node-selector", "a = b"], "key=value,... is expected"),
        "a comma too many": (["--node-selector", "a=b,"], "key=value,... is expected"),
        "a sign too many": (["--node-selector", "a==b"], "key=value,... is expected"),
        "all but one": (["--node-selector", "a!=b"], "key=value,... is expected"),
        "a set": (["--node-selector", "pool in (a)"], "key=value,... is expected"),
        "half a version": (["--operator-version", "v1"], "such as 1.8.1"),
        "no interval": (["--interval-seconds", "0"], "more than 0 is expected"),
        "never": (["--interval-seconds", "inf"], "0 or more, is expected"),
    },
)
def test_a_wrong_value_gets_expected(arguments: list[str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        parse(arguments, {})


@cases(
    ("variable", "meant"),
    {
        "a line too few": ("OPTIMUS_DRYRUN", "OPTIMUS_DRY_RUN"),
        "a letter too few": ("OPTIMUS_INTERVAL_SECOND", "OPTIMUS_INTERVAL_SECONDS"),
        "as the flag is written": ("OPTIMUS_NODE-SELECTOR", "OPTIMUS_NODE_SELECTOR"),
        "in small letters": ("optimus_once", "OPTIMUS_ONCE"),
        "letters in another order": ("OPTIMUS_LOG_LEVLE", "OPTIMUS_LOG_LEVEL"),
    },
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
        for field in flag_fields(extender_settings.Settings)
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
    for field in flag_fields(Settings):
        assert "--" + field.name.replace("_", "-") in text


def test_by_default_jobs_that_end_soon_come_first_and_for_other_policies_the_seconds_count() -> (
    None
):
    assert fairness_of(parse([], {})) == Fairness(-1.5)
    assert fairness_of(Settings(fairness="log")) == Fairness(PROPORTIONAL)
    assert fairness_of(Settings(fairness="0")) == Fairness(0.0)
    assert fairness_of(parse(["--policy", "drf"], {})) is None


def test_a_placement_rule_that_does_not_exist_is_refused() -> None:
    assert parse(["--policy", "drf"], {"OPTIMUS_PLACEMENT": "pack"}).placement == "pack"
    with pytest.raises(SettingsError, match=r"--placement 'even'.*pack, spread or theorem1"):
        parse(["--placement", "even"], {})


# --- the file


def given(folder: Path, text: str) -> str:
    """The flag that names a file with this text."""
    path = folder / "config.yaml"
    path.write_text(text)
    return f"--config={path}"


def problems(folder: Path, text: str, *flags: str) -> list[str]:
    with pytest.raises(SettingsError) as raised:
        parse([given(folder, text), *flags], {})
    return str(raised.value).splitlines()


def test_a_file_sets_what_has_no_flag(tmp_path: Path) -> None:
    text = """
    autoscaler:
      tick-seconds: 1
      log-readers: 4
      node-kind-label: accelerator
      fairness: 1
      priority-weights: {high: 3, low: 0.5}
    extender: {bind-gangs: false}
    policy:
      optimus: {min-gain-fraction: 0.01}
    """
    settings = parse([given(tmp_path, text), "--interval-seconds=30"], {})
    assert (settings.tick_seconds, settings.log_readers, settings.interval_seconds) == (1.0, 4, 30)
    assert settings.node_kind_label == "accelerator"
    assert fairness_of(settings) == Fairness(1.0, {"high": 3.0, "low": 0.5})
    assert settings.policy_options == {"optimus": {"min-gain-fraction": 0.01}}
    variables = {"OPTIMUS_CONFIG": str(settings.config), "OPTIMUS_INTERVAL_SECONDS": "30"}
    assert parse([], variables) == settings


@pytest.mark.parametrize("text", ["", "# nothing", "autoscaler:", "{}"])
def test_an_empty_file_is_the_defaults(tmp_path: Path, text: str) -> None:
    assert replace(parse([given(tmp_path, text)], {}), config=None) == Settings()


def test_all_problems_of_a_file_and_of_flags_are_one_message(tmp_path: Path) -> None:
    text = """
    autoscalr: {}
    autoscaler:
      tick-secs: 1
      tick_seconds: 1
      interval-seconds: 5
      log-readers: 1.5
      profiling-seconds: soon
      moves-per-hour: 0
      node-kind-label: cpu kind
      fairness: much
      priority-weights: {ml: 0}
    policy:
      tetris: {min: 1}
      optimu: {}
      drf: 3
    """
    assert problems(tmp_path, text, "--listen=1") == [
        "section autoscalr: unknown; did you mean autoscaler?",
        "autoscaler.tick-secs: unknown; did you mean tick-seconds?",
        "autoscaler.tick_seconds: unknown; did you mean tick-seconds?",
        "autoscaler.interval-seconds: this is the flag --interval-seconds, and no value of a file",
        "autoscaler.log-readers 1.5: a whole number, 0 or more, is expected",
        "autoscaler.profiling-seconds 'soon': a number, 0 or more, is expected",
        "autoscaler.priority-weights {'ml': 0}: names with numbers above 0 are expected: {ml: 2}",
        "autoscaler.moves-per-hour: more than 0 is expected",
        "autoscaler.fairness 'much': log, or a number from -2 to -1, or of 0 or more, is expected",
        "policy.tetris: there is no option 'min': its options are work-weight",
        "policy.optimu: unknown; did you mean optimus?",
        "policy.drf: options with values are expected",
        "--listen '1': ADDRESS:PORT is expected",
        "autoscaler.node-kind-label 'cpu kind': the key of a label is expected",
    ]


@cases(
    ("text", "sentence"),
    {
        "a list": ("- autoscaler", "autoscaler or extender or policy is expected"),
        "no keys": ("autoscaler: 5", "autoscaler: keys with values are expected"),
        "no YAML": ("autoscaler: {", "while parsing a flow node"),
        "a key twice": ("autoscaler: {a: 1, a: 2}", "a is given twice"),
        "code": ("a: !!python/name:os.system", "could not determine"),
    },
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert sentence in problem


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"--config '.*/none': No such file or directory"):
        parse([f"--config={tmp_path}/none"], {})


@pytest.mark.parametrize(
    ("variable", "key"),
    [("OPTIMUS_TICK_SECONDS", "tick-seconds"), ("OPTIMUS_PRIORITY_WEIGHT", "priority-weights")],
)
def test_a_variable_of_a_value_of_the_file_is_refused(variable: str, key: str) -> None:
    with pytest.raises(SettingsError, match=rf"did you mean autoscaler\.{key} in the file"):
        parse([], {variable: "1"})


def test_fairness_is_of_one_policy_alone(tmp_path: Path) -> None:
    for text in ("fairness: 1", "priority-weights: {ml: 2}"):
        (problem,) = problems(tmp_path, f"autoscaler: {{{text}}}", "--policy=drf")
        assert problem.startswith("--policy 'drf': optimus, the only policy")


def test_at_most_37_flags_are_left() -> None:
    """What few would change belongs into the file."""
    programs = Settings, extender_settings.Settings
    assert sum(len(flag_fields(settings)) for settings in programs) <= 37
