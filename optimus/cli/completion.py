"""``optimus completion SHELL``: completes commands, options, and the names of jobs and contexts.

argcomplete does the work: the shell calls the command with its line in the environment. kubectl
calls the program ``kubectl_complete-optimus`` for its plugin; ``complete_plugin`` answers it."""

import argparse
import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from shlex import join
from typing import Final, NoReturn

from optimus.cli.command import Answer, Implementation, Progress

SHELLS: Final = ("bash", "zsh", "fish")
_LAST: Final = "\v"
"""Between completions, as argcomplete writes them."""

_NO_FILES: Final = ":4"
_FILES: Final = ":0"
"""Behind the completions kubectl reads whether the shell may add the names of files."""


class _Ended(Exception):
    pass


def asked_words() -> list[str]:
    """The words of the line that the shell wants completed, behind the program's name; none where
    it does not ask."""
    return os.environ["COMP_LINE"].split()[1:] if "_ARGCOMPLETE" in os.environ else []


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell where it is the one who calls; then this does not return."""
    if "_ARGCOMPLETE" in os.environ:
        import argcomplete

        argcomplete.autocomplete(parser, always_complete_options=False)


def complete_plugin() -> int:
    """What kubectl asks for: the words behind ``kubectl optimus``, of which the last one is to be
    completed, are answered with a line for each completion."""
    from optimus.cli.commands import COMMANDS
    from optimus.cli.main import parser_of

    words = sys.argv[1:] or [""]
    found = completions(words, parser_of(COMMANDS, words))
    print("\n".join([*found, _NO_FILES if found else _FILES]))
    return 0


def completions(words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """The completions of the last word. argcomplete takes over the parser and the process's ninth
    file, so that this is the last thing that a process does."""
    import argcomplete

    *before, last = words
    line = " ".join(["optimus", *([join(before)] if before else []), last])
    answer = io.StringIO()
    asked = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_IFS": _LAST,
        "COMP_LINE": line,
        "COMP_POINT": str(len(line.encode())),
    }

    def ended(_: int) -> NoReturn:
        raise _Ended

    os.environ.update(asked)
    with suppress(_Ended):
        argcomplete.autocomplete(
            parser,
            always_complete_options=False,
            exit_method=ended,
            output_stream=answer,
            append_space=False,
        )
    return [each.rstrip() for each in answer.getvalue().split(_LAST) if each.strip()]


# --- what only the cluster knows


def job_names(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """The jobs of the namespace that the line names; none where it cannot be asked."""
    from optimus.cli.job_list import job_names as names_of
    from optimus.cli.kubeconfig import connect_user, namespace_of
    from optimus.kube.errors import KubeError

    kubeconfig: Path | None = getattr(parsed_args, "kubeconfig", None)
    context: str | None = getattr(parsed_args, "context", None)
    named: str | None = getattr(parsed_args, "namespace", None)
    namespace = named or namespace_of(kubeconfig, os.environ, context)
    try:
        client = connect_user(kubeconfig, context, user_agent="optimus-completion")
        try:
            return [each for each in names_of(client, namespace) if each.startswith(prefix)]
        finally:
            client.close()
    except KubeError:
        return []


def context_names(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """The contexts of the kubeconfig."""
    from optimus.cli.kubeconfig import contexts_of

    found: Mapping[str, object] = contexts_of(getattr(parsed_args, "kubeconfig", None), os.environ)
    return [each for each in found if each and each.startswith(prefix)]


# --- the command


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, metavar="SHELL", help=", ".join(SHELLS))


def _run(options: argparse.Namespace, _: Progress) -> Answer:
    from argcomplete.shell_integration import shellcode

    script = shellcode(["optimus", "kubectl-optimus"], shell=options.shell)
    return Answer({"shell": options.shell, "script": script}, script.rstrip("\n"))


IMPLEMENTATION: Final = Implementation(_add_arguments, _run)
