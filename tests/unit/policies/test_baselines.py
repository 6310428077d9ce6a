"""The baselines: fair shares, own counts, shortest job first, packing."""

from dataclasses import replace

from optimus.jobs import Counts
from optimus.policies.tetris import TetrisPolicy
from optimus.resources import Resources
from tests.cases import cases
from tests.unit.policies.problems import allocate, candidate, problem


def test_drf_gives_equal_shares_in_pairs() -> None:
    wide = candidate("wide", ps=Resources(cpu=2000), worker=Resources(cpu=2000))
    answer = allocate("drf", problem(Resources(cpu=16000), candidate("a"), wide))
    assert answer.counts == {"a": Counts(4, 4), "wide": Counts(2, 2)}


def test_fifo_admits_the_oldest_first_at_its_own_counts() -> None:
    old, new = candidate("z-old", created_at=1.0), candidate("a-new", created_at=2.0)
    answer = allocate("fifo", problem(Resources(cpu=3000), new, old))
    assert answer.counts == {"z-old": Counts(1, 1)}
    assert "do not fit after earlier jobs" in answer.reasons["a-new"]


def test_srtf_gives_the_shortest_job_what_helps_it_before_the_next() -> None:
    short, long = candidate("z-short", steps=10.0), candidate("a-long", steps=1000.0)
    answer = allocate("srtf", problem(Resources(cpu=10000), short, long))
    assert answer.counts == {"z-short": Counts(4, 4), "a-long": Counts(1, 1)}


def test_srtf_pauses_a_running_job_for_a_shorter_one() -> None:
    runs = candidate("a-long", steps=1000.0, running=True)
    short = candidate("z-short", steps=10.0)
    answer = allocate("srtf", problem(Resources(cpu=3000), runs, short))
    assert set(answer.counts) == {"z-short"}
    assert (
        "paused for jobs of a higher priority or a remaining time shorter"
        in (answer.reasons["a-long"])
    )
    assert "too little cpu is left" in answer.reasons["a-long"]


def test_srtf_keeps_a_shorter_running_job_and_one_of_a_higher_priority() -> None:
    runs, long = candidate("z", steps=10.0, running=True), candidate("a", steps=1000.0)
    assert set(allocate("srtf", problem(Resources(cpu=3000), runs, long)).counts) == {"z"}
    first = replace(long, job=replace(long.job, priority=1))
    answer = allocate("srtf", problem(Resources(cpu=3000), runs, first))
    assert set(answer.counts) == {"a"}


@cases(
    ("work_weight", "first"),
    {
        "small and short comes first": (1.0, "small"),
        "without regard to work the one that fills the room best": (0.0, "wide"),
    },
)
def test_tetris_weighs_alignment_and_work(work_weight: float, first: str) -> None:
    small = candidate("small", steps=10.0)
    wide = candidate("wide", steps=1000.0, ps=Resources(cpu=2000), worker=Resources(cpu=2000))
    answer = TetrisPolicy(work_weight=work_weight).allocate(
        problem(Resources(cpu=14000), small, wide)
    )
    other = "wide" if first == "small" else "small"
    assert answer.counts[first].ps > 1
    assert answer.counts[other] == Counts(1, 1)
