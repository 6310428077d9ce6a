"""The optimus commands of the README run as they stand."""

import shlex
from typing import Final

import pytest

from optimus.cli.commands import COMMANDS
from optimus.cli.main import main, parser_of
from tests.unit.docs.pages import ROOT, page

_COMMANDS: Final = [line for line in page("README.md").code if line.startswith("optimus ")]
_LONG: Final = "simulate"
"""Minutes: only whether its options are right is asked."""
_ASK_A_CLUSTER: Final = (*("status", "why", "what-if", "advise"),)
"""Likewise; ``tests/scenarios`` asks one."""


def _arguments(command: str) -> list[str]:
    return shlex.split(command, comments=True)[1:]


def _asks_a_cluster(command: str) -> bool:
    asked, *rest = _arguments(command)
    return asked in _ASK_A_CLUSTER or (asked == "doctor" and not rest)


@pytest.mark.parametrize(
    "command",
    [each for each in _COMMANDS if not _asks_a_cluster(each) and each.split()[1] != _LONG],
)
def test_a_command_of_the_readme_answers(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(_arguments(command)) == 0
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_the_options_of_every_command_of_the_readme_are_right() -> None:
    assert len(_COMMANDS) >= len(COMMANDS)
    for command in _COMMANDS:
        words = _arguments(command)
        assert parser_of(COMMANDS, words).parse_args(words).command
