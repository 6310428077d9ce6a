"""What is assumed of a cluster to answer what another decision would bring.

Apart from ``job_view``: the policies take long to load, and most commands do without them.
"""

from dataclasses import dataclass, replace

from optimus.allocation import NO_HISTORY, JobHistory
from optimus.cli.job_view import ClusterJob
from optimus.errors import NotReady
from optimus.kube.stored_settings import ClusterSettings, settings_of
from optimus.lifecycle import recorded_history
from optimus.progress.types import NOTHING
from optimus.what_if.counts import DecisionBasis


def known_job(view: ClusterJob) -> DecisionBasis:
    """Return what a decision about a job rests on, as far as its profile tells."""
    history, status, learned = NO_HISTORY, view.status, view.learned
    if view.job is not None and learned is not None:
        history = JobHistory(
            **recorded_history(learned.record, view.job),
            held="" if status.recommended is None else status.reason,
            rescaling_to=None if status.rescale is None else status.rescale.target,
        )
    progress = NOTHING if learned is None else learned.progress
    return DecisionBasis(view.forecast, view.forecast_at, progress, history)


@dataclass(frozen=True, slots=True)
class Assumed:
    """The settings by which a question about a cluster is answered, and what is not known of
    them."""

    settings: ClusterSettings
    not_known: str = ""

    @classmethod
    def of(cls, view: ClusterJob, node_selector: str | None) -> "Assumed":
        """The settings by which the job's counts were decided; ``node_selector`` is used instead of
        the stored one where it is given."""
        found = settings_of(None if view.learned is None else view.learned.decided_by)
        settings = ClusterSettings() if isinstance(found, NotReady) else found
        if node_selector is not None:
            settings = replace(settings, node_selector=node_selector)
        return cls(settings, str(found) if isinstance(found, NotReady) else "")
