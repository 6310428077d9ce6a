"""What is assumed of a cluster to answer what another decision would bring.

Apart from ``job_view``: the policies take long to load, and most commands do without them.
"""

from collections.abc import Sequence
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


def _settings(view: ClusterJob) -> ClusterSettings | NotReady:
    """The settings by which the autoscaler decides the job's counts."""
    stored = None if view.learned is None else view.learned.decided_by
    return settings_of(stored)


@dataclass(frozen=True, slots=True)
class Assumed:
    """The settings by which a question about a cluster is answered, and sentences on what of them
    is not known."""

    settings: ClusterSettings
    not_known: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, views: Sequence[ClusterJob], namespace: str, node_selector: str | None
    ) -> "Assumed":
        """The settings in the profile that was decided last, of this namespace where it has one;
        ``node_selector`` is used instead of the stored one where it is given."""
        stored = [view for view in views if view.profile is not None and view.status.decided_at]
        own = [each for each in stored if each.training_job.namespace == namespace]
        newest = max(own or stored, key=lambda each: str(each.status.decided_at), default=None)
        found = settings_of(None) if newest is None else _settings(newest)
        said = tuple[str, ...]()
        if isinstance(found, NotReady):
            said, found = (found.reason,), ClusterSettings()
        if node_selector is not None:
            found = replace(found, node_selector=node_selector)
        return cls(found, said)

    @property
    def sentences(self) -> list[str]:
        """What is not known, for people."""
        return [f"{each[0].upper()}{each[1:]}." for each in self.not_known]
