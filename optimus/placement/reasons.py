"""The sentences in which placement refuses. They do not vary from try to try.

kube-scheduler writes a pod's refusal into its status when the text changed, and that write is an
event that makes it try the pod again: a text with a changing number in it would make the pod spin.
"""

from optimus.jobs import Counts, Job, Role
from optimus.placement.gang import DoesNotFit, Gang


def shape(gang: Gang) -> str:
    """The gang's counts in words: ``2 PS + 4 workers + 1 chief``."""
    roles = [member.role for member in gang.members]
    words = [str(Counts(roles.count(Role.PS), roles.count(Role.WORKER)))]
    fixed = sorted({role for role in roles if role not in (Role.PS, Role.WORKER)})
    return " + ".join([*words, *(f"{roles.count(role)} {role}" for role in fixed)])


def does_not_fit(gang: Gang) -> DoesNotFit:
    """The refusal of a gang for want of room."""
    return DoesNotFit(f"job {gang.key} ({shape(gang)}) does not fit as a whole")


def job_does_not_fit(job: Job, counts: Counts) -> DoesNotFit:
    """The same of a whole job at counts that may not be its own."""
    return does_not_fit(Gang.of(job, counts))
