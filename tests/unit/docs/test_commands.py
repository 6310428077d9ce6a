"""The optimus commands of the pages are understood, and those of the README that need no cluster
run as they stand."""

import re
import shlex
from typing import Final

import pytest

from optimus.cli.commands import COMMANDS
from optimus.cli.main import main, parser_of
from tests.unit.docs.pages import ROOT, Page, all_pages, page

_CALL: Final = re.compile(r"(?:\$ )?(?:kubectl )?optimus ([a-z].*)")


def _calls(source: Page) -> list[list[str]]:
    """The words of each line of a block of code that calls the command."""
    text = source.text.replace("\\\n", " ")
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    called = [match[1] for line in lines if (match := _CALL.fullmatch(line))]
    outputs_and_forms = {"%", "["}
    return [shlex.split(each, comments=True) for each in called if not outputs_and_forms & {*each}]


@pytest.mark.parametrize(
    "words", [each for each in _calls(page("README.md")) if "tests/data" in str(each)]
)
def test_a_command_of_the_readme_answers(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(words) == 0
    assert len(capsys.readouterr().out.splitlines()) > 1


def test_the_options_of_every_command_of_a_page_are_right() -> None:
    calls = [words for each in all_pages() for words in _calls(each)]
    assert len(calls) > len(COMMANDS)
    for words in calls:
        assert parser_of(COMMANDS, words).parse_args(words).command
