"""The command line, and what it prints."""

import json
from typing import Any

import pytest

from optimus.cli.main import main


class CommandLine:
    """Runs commands and returns what they print."""

    def __init__(self, printed: pytest.CaptureFixture[str]) -> None:
        self._printed = printed

    def text(self, *arguments: object) -> str:
        status = main([*map(str, arguments)])
        printed = self._printed.readouterr()
        assert (status, printed.err) == (0, "")
        return printed.out

    def json(self, *arguments: object) -> Any:
        return json.loads(self.text(*arguments, "--json"))

    def error(self, *arguments: object) -> str:
        """The one line of a command that fails."""
        assert main([*map(str, arguments)]) == 1
        printed = self._printed.readouterr()
        assert printed.out == ""
        (line,) = printed.err.splitlines()
        return line

    def refused(self, *arguments: object) -> str:
        """What is said of arguments that cannot be used."""
        with pytest.raises(SystemExit, match="2"):
            main([*map(str, arguments)])
        return self._printed.readouterr().err


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> CommandLine:
    return CommandLine(capsys)
