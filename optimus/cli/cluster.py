"""What the commands that ask a cluster have in common: options, connection, sentences of errors.

Everything goes through the user's kubeconfig, with the user's own rights.
"""

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from optimus.cli.command import BadInput
from optimus.cli.completion import context_names, job_names

if TYPE_CHECKING:  # these need the packages of the extra "cluster"
    from optimus.kube.client import Client
    from optimus.kube.errors import KubeError

FORMS = ("json", "yaml", "wide")

_FORBIDDEN = (
    "; the ClusterRole view of the namespace has the right to read, once manifests/rbac-users.yaml"
    " is applied"
)

_FORBIDDEN_EVERYWHERE = "; without -A the jobs of one namespace are asked for"


@dataclass(frozen=True, slots=True)
class Cluster:
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
    forms = "print the answer as JSON or YAML, or with more columns"
    add("-o", "--output", dest="print_as", choices=FORMS, help=forms)


def add_job(parser: argparse.ArgumentParser, text: str, nargs: str | None = None) -> None:
    """The argument that names a job; a shell completes it."""
    # Set by name: argparse does not know the attribute that argcomplete reads.
    vars(parser.add_argument("job", metavar="JOB", nargs=nargs, help=text)).update(
        completer=job_names
    )


@contextmanager
def connected(options: argparse.Namespace, command: str) -> Iterator[Cluster]:
    """The cluster of the options; whatever goes wrong there is one sentence."""
    try:
        from optimus.kube.client import connect_user
        from optimus.kube.errors import KubeError
        from optimus.kube.job_facts import namespace_of
    except ImportError as missing:
        raise BadInput(
            command, f"{missing.name} is not installed: pip install '.[cluster]' in the checkout"
        ) from None
    kubeconfig, context = options.kubeconfig, options.context
    namespace = options.namespace or namespace_of(kubeconfig, os.environ, context)
    try:
        client = connect_user(kubeconfig, context, user_agent=f"optimus-{command}")
        try:
            yield Cluster(client, namespace)
        finally:
            client.close()
    except KubeError as error:
        raise BadInput(command, sentence_of(error)) from None


def sentence_of(error: "KubeError") -> str:
    """What went wrong, and what can be done about it."""
    from optimus.kube.errors import ErrorKind

    said = error.sentence
    if "no connection to the API server" in said or "did not answer in time" in said:
        return f"{said}; `kubectl cluster-info` says whether the cluster of this context is up"
    if error.kind is ErrorKind.FORBIDDEN and "(HTTP 401)" in said:
        return f"{said}; the API server does not accept the credentials of this context"
    if error.kind is ErrorKind.FORBIDDEN and "cannot list" in said and "cluster scope" in said:
        return f"{said}{_FORBIDDEN_EVERYWHERE}"
    if error.kind is ErrorKind.FORBIDDEN and ("cannot list" in said or "cannot get" in said):
        return f"{said}{_FORBIDDEN}"
    return said
