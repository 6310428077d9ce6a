"""What the commands that ask a cluster have in common: options, connection, sentences of errors.

Everything goes through the user's kubeconfig, with the user's own rights.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optimus.cli.command import INCOMPLETE, BadInput
from optimus.cli.completion import context_names, job_names

if TYPE_CHECKING:  # loaded by the commands that ask a cluster
    from optimus.kube.client import Client
    from optimus.kube.errors import KubeError

_READING = ("get", "list", "watch")


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection, and the namespace that is asked about."""

    client: "Client"
    namespace: str

    def wanted(self, options: argparse.Namespace) -> str | None:
        """The namespace to list; ``None``: all."""
        return None if getattr(options, "all_namespaces", False) else self.namespace


def add_arguments(parser: argparse.ArgumentParser, *, all_namespaces: bool = False) -> None:
    """The options that kubectl has."""
    add = parser.add_argument
    add("-n", "--namespace", help="default: that of the kubeconfig's context")
    if all_namespaces:
        add("-A", "--all-namespaces", action="store_true", help="the jobs of all namespaces")
    text = "a context of the kubeconfig; default: its current one"
    vars(add("--context", metavar="NAME", help=text)).update(completer=context_names)
    add("--kubeconfig", type=Path, metavar="FILE", help="default: as kubectl chooses it")


def add_job(parser: argparse.ArgumentParser, text: str, nargs: str | None = None) -> None:
    """The argument that names a job; a shell completes it."""
    # Set by name: argparse does not know the attribute that argcomplete reads.
    vars(parser.add_argument("job", metavar="JOB", nargs=nargs, help=text)).update(
        completer=job_names
    )


@contextmanager
def connected(options: argparse.Namespace, command: str) -> Iterator[Connection]:
    """The cluster of the options; whatever goes wrong there is one sentence."""
    from optimus.cli.kubeconfig import connect_user, namespace_of
    from optimus.kube.errors import KubeError

    kubeconfig, context = options.kubeconfig, options.context
    namespace = options.namespace or namespace_of(kubeconfig, os.environ, context)
    try:
        client = connect_user(kubeconfig, context, user_agent=f"optimus-{command}")
        try:
            yield Connection(client, namespace)
        finally:
            client.close()
    except KubeError as error:
        everywhere = getattr(options, "all_namespaces", False)
        raise BadInput(command, sentence_of(error, everywhere=everywhere)) from None


def incomplete(not_readable: Sequence[str]) -> list[str]:
    """What could not be read: one sentence on all rights that the user lacks, with what to ask for,
    and one on each other thing."""
    from optimus.cli.rights import MAY_NOT

    lacking = [each.removeprefix(MAY_NOT) for each in not_readable if each.startswith(MAY_NOT)]
    found = [each for each in not_readable if not each.startswith(MAY_NOT)]
    if lacking:
        found.insert(0, f"{MAY_NOT}{'; '.join(lacking)}; {_asked_of_an_administrator('view')}")
    return found


def status_of(not_readable: Sequence[str]) -> int:
    """The exit status of an answer without what could not be read."""
    return INCOMPLETE if not_readable else 0


def _asked_of_an_administrator(role: str) -> str:
    return (
        f"ask an administrator for the ClusterRole {role}, which has these rights once"
        " manifests/user-roles/rbac.yaml is applied"
    )


def sentence_of(error: "KubeError", *, everywhere: bool = False) -> str:
    """What went wrong, and what can be done about it; ``everywhere``: all namespaces were asked
    for."""
    from optimus.cli.rights import explained, refused_right
    from optimus.kube.errors import ErrorKind

    said, right = explained(error), refused_right(error)
    if "no connection to the API server" in said or "did not answer in time" in said:
        return f"{said}; `kubectl cluster-info` says whether the cluster of this context is up"
    if error.kind is ErrorKind.FORBIDDEN and "(HTTP 401)" in said:
        return f"{said}; the API server does not accept the credentials of this context"
    if right is None:
        return said
    if everywhere and not right.namespace:
        return f"{said}; without -A the jobs of one namespace are asked for"
    if not right.namespace:
        return f"{said}: this question is about the whole cluster; ask an operator, or on the page"
    role = "view" if right.verb in _READING else "edit"
    return f"{said}; {_asked_of_an_administrator(role)}"
