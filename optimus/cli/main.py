"""The command ``optimus``: parses arguments, prints a command's answer, or one line of error.

As ``kubectl-optimus`` on the PATH it is kubectl's plugin ``kubectl optimus``.
"""

import argparse
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from optimus.cli.arguments import number_between
from optimus.cli.command import Answer, BadInput, Command, Implementation, Item
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
    if sys.stdout is None:  # closed by the caller, as by `>&-`
        sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - until the end
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A terminal without ± in its encoding must not end in a traceback.
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:] if arguments is None else arguments
    try:
        parser = parser_of(commands, asked_words() or words)
        complete(parser)
        options = parser.parse_args(words)
        command: Implementation = options.command
        if getattr(options, "watch", False):
            return _watch(command, options, sleep)
        plot: Path | None = getattr(options, "plot", None)
        if plot is not None:
            _check_plot(plot)
        answer = command.run(options, _progress)
        _print(_shown(answer, options.print_as))
        if plot is not None:
            _draw(answer, plot)
    except BadInput as problem:
        return _fail(str(problem))
    except OSError as problem:
        return _fail(f"{problem.filename or 'output'}: {problem.strerror or problem}")
    except KeyboardInterrupt:
        return _fail("interrupted")
    return answer.status


def _watch(
    command: Implementation, options: argparse.Namespace, sleep: Callable[[float], None]
) -> int:
    """Show the answer until interrupted: on a terminal in place of the one before, else whenever it
    has changed. What goes wrong after the first answer is shown, and asked again."""
    shown, status = (
        _shown(answer := command.run(options, _progress), options.print_as),
        answer.status,
    )
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
                answer = command.run(options, _progress)
                shown, status = _shown(answer, options.print_as), answer.status
            except BadInput as problem:
                shown, status = escaped(f"optimus: {problem}", "\n"), 1
    return status


def _fail(sentence: str) -> int:
    with suppress(BrokenPipeError):
        print(f"optimus: {escaped(' '.join(sentence.split()))}", file=sys.stderr)
    return 1


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
    parser = argparse.ArgumentParser(prog=program, description=DESCRIPTION)
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
    add(
        "--json",
        dest="print_as",
        action="store_const",
        const="json",
        help="print the answer as JSON",
    )
    if command.plots:
        plot = "draw the answer into this file (.png, .svg, .pdf)"
        add("--plot", type=Path, metavar="FILE", help=plot)
    if command.watchable:
        add("-w", "--watch", action="store_true", help="ask again and again, until interrupted")
        every = number_between(0, 86_400, "a number of seconds")
        text = f"with --watch: seconds between two times (default: {_EVERY_SECONDS:g})"
        add("--every", type=every, default=_EVERY_SECONDS, metavar="SECONDS", help=text)


def _shown(answer: Answer, print_as: str | None) -> str:
    if print_as == "json":
        return json.dumps(answer.value, indent=2, allow_nan=False)
    if print_as == "yaml":
        try:
            import yaml
        except ImportError:
            raise BadInput("-o yaml", "pyyaml is not installed: pip install pyyaml") from None
        text: str = yaml.safe_dump(answer.value, sort_keys=False, allow_unicode=True)
        return text.rstrip("\n")
    wide = answer.wide if print_as == "wide" else None
    text = escaped(answer.text if wide is None else wide, "\n")
    return _coloured(text, answer.colours) if answer.colours and sys.stdout.isatty() else text


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
    """Whether there is still a reader."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        # The reader has closed the pipe (`| head`); Python's flush at exit must not fail either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _check_plot(file: Path) -> None:
    """Fails before the work, and not after it, where there can be no plot."""
    if file.suffix.lower() not in {".png", ".svg", ".pdf"}:
        raise BadInput(file, "a file that ends in .png, .svg or .pdf is expected")
    if not file.parent.is_dir():
        raise BadInput(file, "a file in a folder that exists is expected")
    try:
        import matplotlib  # noqa: F401 - asked for by --plot alone
    except ImportError:
        raise BadInput(file, "a plot needs matplotlib: pip install matplotlib") from None


def _draw(answer: Answer, file: Path) -> None:
    from matplotlib.figure import Figure

    if answer.plot is None:
        raise BadInput(file, "this command has nothing to plot")
    figure = Figure(figsize=(9, 5.5), layout="constrained")
    answer.plot(figure)
    figure.savefig(file, dpi=150)


def _progress(items: Sequence[Item], what: str) -> Iterable[Item]:
    """A progress bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        return items
    from rich.console import Console
    from rich.progress import track

    return track(items, what, console=Console(stderr=True), transient=True)
