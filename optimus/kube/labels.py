"""The labels that the training operator puts on a job's pods (version 1.6 and newer), and what they
mean."""

from collections.abc import Mapping
from typing import Final

from optimus.jobs import Role

OPERATOR_GROUP: Final = "kubeflow.org"
JOB_NAME: Final = "training.kubeflow.org/job-name"
REPLICA_TYPE: Final = "training.kubeflow.org/replica-type"
REPLICA_INDEX: Final = "training.kubeflow.org/replica-index"

MOST_REPLICAS: Final = 10_000
"""A label or a list that speaks of more replicas of one role is nobody's gang: any pod's maker can
write it."""

_ROLES = {role.value: role for role in Role} | {"server": Role.PS}


def role_named(replica_type: str) -> Role | None:
    """The role behind a replica type in any casing; MXNet's Server is a PS. ``None``: none that we
    know."""
    return _ROLES.get(replica_type.lower())


def replica_of(labels: Mapping[str, str]) -> tuple[Role, int] | None:
    """Role and index of the replica that the labels name; ``None`` where they name none that can
    be."""
    role = role_named(labels.get(REPLICA_TYPE, ""))
    index = labels.get(REPLICA_INDEX, "")
    if role is None or not (
        index.isascii() and index.isdigit() and len(index) < 10 and int(index) < MOST_REPLICAS
    ):
        return None
    return role, int(index)


def selector(job_name: str) -> str:
    """The label selector for one job's pods; other kinds of job may share it, so compare owners
    too."""
    return f"{JOB_NAME}={job_name}"
