"""The command ``optimus``: parses arguments, prints a command's answer, or one line of error.

As ``kubectl-optimus`` on the PATH it is kubectl's plugin ``kubectl optimus``.
"""

import argparse
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from optimus.cli.arguments import number_between, unknown_word
from optimus.cli.command import BadInput, Command, Implementation, Item
from optimus.cli.commands import COMMANDS, GROUPS
from optimus.cli.completion import asked_words, complete
from optimus.runtime.logs import escaped

DESCRIPTION = (
    "Optimus on Kubernetes: the jobs of a cluster and what is decided for them; models, policies"
    " and plans on your own history."
)
_EVERY_SECONDS = 5.0
_PLUGIN = "kubectl-optimus"
"""The name by which kubectl finds its plugin."""


def program_name(called_as: str) -> str:
    """The name by which the command was called: ``optimus`` or ``kubectl optimus``."""
    return "kubectl optimus" if Path(called_as).name == _PLUGIN else "optimus"


def main(
    arguments: Sequence[str] | None = None,
    commands: Sequence[Command] = COMMANDS,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Run one command; the exit status is 0, 1 for wrong input or a bad answer, 2 for wrong
    arguments, or 3 for an answer that is incomplete."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        parser = parser_of(commands, asked_words() or words)
        complete(parser)
        options = parser.parse_args(words)
        if getattr(options, "watch", False):
            return _watch(options, sleep)
        text, status = _answered(options)
        _print(text)
    except BadInput as problem:
        return _fail(str(problem))
    except ModuleNotFoundError as missing:
        return _fail(missing_package(missing))
    except OSError as problem:
        return _fail(f"{problem.filename or 'output'}: {problem.strerror or problem}")
    except KeyboardInterrupt:
        return _fail("interrupted")
    return status


def _answered(options: argparse.Namespace) -> tuple[str, int]:
    """The command's answer as it is shown, and the exit status.

    What a library prints while the command runs goes to standard error."""
    command: Implementation = options.command
    with redirect_stdout(sys.stderr):
        answer = command.run(options, _progress)
    if options.json:
        return json.dumps(answer.value, indent=2, allow_nan=False), answer.status
    text = escaped(answer.text, "\n")
    coloured = answer.colours and sys.stdout.isatty()
    return _coloured(text, answer.colours) if coloured else text, answer.status


def _watch(options: argparse.Namespace, sleep: Callable[[float], None]) -> int:
    """Show the answer until interrupted: on a terminal in place of the one before, else whenever it
    has changed. What goes wrong after the first answer is shown, and asked again."""
    shown, status = _answered(options)
    before = ""
    with suppress(KeyboardInterrupt):
        while True:
            if sys.stdout.isatty():
                at = datetime.now(UTC).strftime("%H:%M:%S UTC")
                shown = f"\x1b[H\x1b[2J\x1b[3J{at}, every {options.every:g} s\n\n{shown}"
            if shown != before and not _print(shown):
                return status
            before = shown
            sleep(options.every)
            try:
                shown, status = _answered(options)
            except BadInput as problem:
                shown, status = escaped(f"optimus: {problem}", "\n"), 1
    return status


def missing_package(missing: ModuleNotFoundError) -> str:
    """Return what brings a package of an extra that is not installed.

    Raises:
        ModuleNotFoundError: it is no such package."""
    package = str(missing.name).partition(".")[0]
    extra = {"highspy": "simulator", "distributed": "dask"}.get(package)
    if extra is None:
        raise missing
    return f"{package} is not installed: pip install '.[{extra}]' in the checkout"


def _fail(sentence: str) -> int:
    with suppress(BrokenPipeError):
        print(f"optimus: {escaped(' '.join(sentence.split()))}", file=sys.stderr)
    return 1


class _Parser(argparse.ArgumentParser):
    """Says what is wrong before it says what can be called, and which word may have been meant."""

    def __init__(self, **given: Any) -> None:
        """An option is written in full: ``--policy`` is not ``--policy-config``."""
        super().__init__(allow_abbrev=False, **given)

    def parse_known_args(self, *given: Any, **named: Any) -> Any:
        """As the base class; an option that is not known is refused here, by the command's own."""
        found, unknown = super().parse_known_args(*given, **named)
        if unknown and unknown[0].startswith("-"):
            options = [each for each in self._option_string_actions if each.startswith("--")]
            self.error(unknown_word(unknown[0].partition("=")[0], options))
        return found, unknown

    def error(self, message: str) -> NoReturn:
        named = re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message)
        if named is not None:
            known = re.findall(r"[\w-]+", named[2])
            message = f"{message[: named.start()]}{unknown_word(named[1], known)}"
        print(f"{self.prog}: {escaped(message)}", file=sys.stderr)
        self.print_usage(sys.stderr)
        self.exit(2)


class _PrintVersion(argparse.Action):
    """``--version``, looked up where it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib.metadata import version

        print(f"{parser.prog} {version('optimus-on-kubernetes')}")
        parser.exit()


def parser_of(commands: Sequence[Command], words: Sequence[str]) -> argparse.ArgumentParser:
    """What the command line may say, where it says these words: only the command that they name is
    loaded, and has its options."""
    program = program_name(sys.argv[0])
    parser = _Parser(prog=program, description=DESCRIPTION)
    parser.add_argument("--version", action=_PrintVersion, nargs=0, help="print the version")
    top = parser.add_subparsers(metavar="COMMAND", required=True)
    groups = {}
    named = [each for each in words if not each.startswith("-")]
    for command in commands:
        *group, name = command.path
        level = top
        for word in group:
            if word not in groups:
                branch = top.add_parser(word, help=GROUPS[word], description=GROUPS[word])
                groups[word] = branch.add_subparsers(metavar="WHAT", required=True)
            level = groups[word]
        leaf = level.add_parser(name, help=command.summary, description=command.summary)
        if tuple(named[: len(command.path)]) == command.path:
            implementation = command.load()
            implementation.add_arguments(leaf)
            _add_common(leaf, command)
            leaf.set_defaults(command=implementation)
    return parser


def _add_common(leaf: argparse.ArgumentParser, command: Command) -> None:
    add = leaf.add_argument
    add("--json", action="store_true", help="print the answer as JSON")
    if command.watchable:
        add("-w", "--watch", action="store_true", help="ask again and again, until interrupted")
        every = number_between(0, 86_400, "a number of seconds")
        text = f"with --watch: seconds between two times (default: {_EVERY_SECONDS:g})"
        add("--every", type=every, default=_EVERY_SECONDS, metavar="SECONDS", help=text)


def _coloured(text: str, colours: Mapping[str, str]) -> str:
    """The text with the colours that the terminal has, or none where ``NO_COLOR`` is set."""
    from rich.console import Console
    from rich.text import Text

    marked = Text(text)
    for word, colour in colours.items():
        marked.highlight_regex(rf"(?<!\S){re.escape(word)}(?![^\s,;])", colour)
    console = Console(soft_wrap=True)
    with console.capture() as capture:
        console.print(marked, end="")
    return capture.get()


def _print(text: str) -> bool:
    """Return whether there is still a reader."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`); Python's flush at exit must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _progress(items: Sequence[Item], what: str) -> Iterable[Item]:
    """A progress bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, what, console=Console(stderr=True), transient=True)
