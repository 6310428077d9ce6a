"""The autoscaler's settings: flags, environment, and every problem named at once."""

from dataclasses import fields
from pathlib import Path

import pytest

from autoscaler.settings import Settings, parse
from settings import SettingsError


def test_defaults_are_those_of_the_dataclass() -> None:
    assert parse([], {}) == Settings()


def test_a_flag_wins_over_the_environment() -> None:
    environment = {"OPTIMUS_INTERVAL_SECONDS": "30", "OPTIMUS_DRY_RUN": "true"}
    settings = parse(["--interval-seconds", "20", "--kubeconfig", "/some/where"], environment)
    assert (settings.interval_seconds, settings.dry_run, settings.kubeconfig) == (20.0, True, Path("/some/where"))


def test_a_switch_needs_no_value() -> None:
    assert parse(["--once"], {}).once
    assert not parse(["--once=false"], {"OPTIMUS_ONCE": "true"}).once


def test_every_wrong_value_is_named_in_one_message() -> None:
    with pytest.raises(SettingsError) as raised:
        parse(["--interval-seconds", "soon", "--log-readers", "-1"], {"OPTIMUS_DRY_RUN": "maybe"})
    lines = str(raised.value).splitlines()
    assert [line.split()[0] for line in lines] == ["--dry-run", "--interval-seconds", "--log-readers"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        pytest.param(
            ["--policy", "best"],
            "--policy 'best': drf, fifo, optimus, optimus-paper, srtf or",
            id="a policy that does not exist",
        ),
        pytest.param(["--listen", "8080"], "ADDRESS:PORT is expected", id="a port without an address"),
        pytest.param(["--node-selector", "pool"], "key=value,... is expected", id="a label without a value"),
        pytest.param(["--operator-version", "v1"], "such as 1.8.1", id="half a version"),
        pytest.param(["--tick-seconds", "0"], "more than 0 is expected", id="a beat of nothing"),
        pytest.param(["--interval-seconds", "inf"], "0 or more, is expected", id="never"),
    ],
)
def test_what_would_be_right_is_said(arguments: list[str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        parse(arguments, {})


def test_every_setting_is_explained_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(["--help"], {})
    text = capsys.readouterr().out
    for field in fields(Settings):
        assert "--" + field.name.replace("_", "-") in text
