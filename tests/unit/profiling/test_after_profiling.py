"""The counts of a job whose profiling runs are over: a table, and what it may lose on the way."""

from dataclasses import replace

import pytest

from optimus.allocation import JobHistory, PlacementFailure
from optimus.errors import NotReady
from optimus.interval import Action, Decision, IntervalConfig, ProfilingConfig
from optimus.interval.classify import JobView
from optimus.interval.profiling import decide_after_profiling, may_skip_checkpoint
from optimus.jobs import CountBounds, Counts, Job, RescaleRule
from optimus.models.forecast import Forecast
from optimus.progress.types import TrainingProgress
from tests.cases import cases
from tests.unit.interval.cluster import job, steps

AT, CONFIG = 10_000.0, ProfilingConfig()
USER, MEASURED = Counts(1, 2), Counts(2, 3)
"""The user's counts, and those of the last profiling run, where the job is."""
RUN = JobHistory(profiled=(MEASURED,) * CONFIG.runs, own_counts=USER)
FAILED = replace(RUN, placement_failures=(PlacementFailure(USER, MEASURED, AT - 10, 600.0),))
CHECKPOINTS = TrainingProgress(checkpoint_at=AT - 50)
SILENT = TrainingProgress()
NO_FORECAST = NotReady("3 loss points, 5 needed")
SLOWER, FASTER = Counts(1, 1), Counts(3, 4)
STAYS = "no change of the decision"


def view(
    history: JobHistory,
    progress: TrainingProgress = CHECKPOINTS,
    forecast: Forecast | NotReady = NO_FORECAST,
    of: Job | None = None,
) -> JobView:
    of = of or job("a", (2, 3))
    return JobView(of, True, forecast, history, progress, IntervalConfig(), AT)


def decision(counts: Counts = MEASURED, action: Action = Action.KEEP) -> Decision:
    return Decision(job("a").key, "uid-a", MEASURED, counts, action, STAYS)


OUT_OF_BOUNDS = job("a", (2, 3), bounds=CountBounds(max_workers=2))
MOVES = (FASTER, Action.GROW)

CASES = [
    ("a job that was never moved to be measured stays", view(JobHistory()), (), STAYS),
    ("a job in a rescale stays", view(replace(RUN, rescaling_to=USER)), (), STAYS),
    ("a job being measured stays", view(replace(RUN, profiling_since=AT)), (), STAYS),
    ("a job that awaits a checkpoint stays", view(replace(RUN, awaits_checkpoint=True)), (),
     STAYS),
    ("a job whose pods just found no place there stays", view(FAILED), (), STAYS),
    ("a job with a forecast goes by the allocation", view(RUN, forecast=steps(9)), MOVES,
     STAYS),
    ("a job that moves for another reason does so", view(RUN), MOVES, STAYS),
    ("a job with runs to come stays", view(replace(RUN, profiled=(MEASURED,))), (), STAYS),
    ("without a forecast it returns", view(RUN), (),
     "(3 loss points, 5 needed): it returns to the submitted 1 PS + 2 workers"),
    ("it returns as far as its bounds allow", view(RUN, of=OUT_OF_BOUNDS), (),
     "there is no forecast"),
    ("without checkpoints and a forecast it returns at once", view(RUN, SILENT), (),
     "there is no forecast, and its log shows no checkpoint (3 loss points, 5 needed)"),
    ("without checkpoints it moves on for another reason", view(RUN, SILENT), MOVES, STAYS),
    ("without checkpoints it is moved to faster counts", view(RUN, SILENT, steps(9)), MOVES,
     STAYS),
    ("without checkpoints it is not moved to slower counts", view(RUN, SILENT, steps(9)),
     (SLOWER, Action.SHRINK),
     "its log shows no checkpoint after which it could leave 1 PS + 1 worker again"),
    ("bounds that moved come first", view(RUN, SILENT, of=OUT_OF_BOUNDS), (), STAYS),
    ("a suspension comes first", view(RUN, SILENT), (MEASURED, Action.SUSPEND), STAYS),
    ("rescale any needs no checkpoint", view(RUN, SILENT, of=job("a", (2, 3),
     rescale=RescaleRule.ANY)), (), "there is no forecast"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("seen", "decided", "reason"), [each[1:] for each in CASES], ids=[each[0] for each in CASES]
)
def test_counts_after_profiling(
    seen: JobView, decided: tuple[()] | tuple[Counts, Action], reason: str
) -> None:
    before = decision(*decided)
    after = decide_after_profiling(seen, before)
    assert reason in after.reason
    assert after.counts == (before.counts if reason == STAYS else USER)
    assert after.action is (before.action if reason == STAYS else Action.SHRINK)


@cases(
    ("history", "progress", "expected"),
    {
        "a short run without checkpoints": ({"measured_at": AT - 100}, SILENT, True),
        "too much to lose": ({"measured_at": AT - 600}, SILENT, False),
        "a checkpoint can be awaited": ({"measured_at": AT - 100}, CHECKPOINTS, False),
        "not moved": ({"measured_at": AT - 100, "own_counts": None}, SILENT, False),
        "never measured": ({}, SILENT, False),
    },
)
def test_what_may_be_lost(
    history: dict[str, object], progress: TrainingProgress, expected: bool
) -> None:
    known = replace(RUN, **history)  # type: ignore[arg-type]  # fields of a test table, of any type
    assert may_skip_checkpoint(job("a", (2, 3)), known, progress, AT, CONFIG) is expected
