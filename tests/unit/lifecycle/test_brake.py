"""When moves end since moved jobs ended later than untouched."""

from optimus.lifecycle.books import EndedJob, brake_of
from tests.cases import cases


def ended(*fractions: float, namespace: str = "team", workload: str = "") -> list[EndedJob]:
    return [
        EndedJob(f"{number:04}", f"{workload}{number}", namespace, workload, each)
        for number, each in enumerate(fractions)
    ]


@cases(
    ("fractions", "braked"),
    {
        "nineteen jobs that lost": ([-0.4] * 19, False),
        "twenty jobs that lost": ([-0.4] * 20, True),
        "twenty that lost a little": ([-0.04] * 20, False),
        "losses after many gains": ([0.5] * 100 + [-0.4] * 20, True),
        "old losses": ([-0.4] * 20 + [0.3] * 20, False),
        "one that lost all": ([0.0] * 18 + [-0.9, -9.0], True),
    },
)
def test_the_mean_of_the_last_jobs_decides(fractions: list[float], *, braked: bool) -> None:
    assert bool(brake_of(ended(*fractions)).why("team", "")) is braked


def test_it_says_how_much_later_jobs_ended() -> None:
    why = brake_of(ended(*[-0.4] * 20)).why("team", "")
    assert why == (
        "the last 20 moved jobs of its namespace ended 40% later than untouched on average"
    )
    assert brake_of(ended(*[0.3] * 20)).why("team", "") == ""
    assert brake_of(()).why("team", "") == ""


def test_one_workload_is_braked_alone() -> None:
    losing = ended(*[-0.4] * 20, workload="slow")
    gaining = [each._replace(workload="fast", saved_fraction=0.9) for each in losing]
    mixed = [each._replace(ended_at=f"{each.ended_at}b") for each in gaining]
    brake = brake_of([*losing, *mixed])
    assert "jobs of its workload" in brake.why("team", "slow")
    assert brake.why("team", "fast") == brake.why("team", "") == brake.why("other", "slow") == ""


def test_a_namespace_ends_the_moves_of_no_other() -> None:
    """Its jobs may print what they like."""
    brake = brake_of([*ended(*[-1.0] * 200, namespace="liar"), *ended(0.1, namespace="team")])
    assert brake.why("liar", "")
    assert brake.why("team", "") == ""


@cases(
    ("losing", "gaining", "braked"),
    {"two of two": (2, 0, False), "three of five": (3, 2, True), "three of six": (3, 3, False)},
)
def test_moves_of_all_end_where_those_of_most_namespaces_do(
    losing: int, gaining: int, *, braked: bool
) -> None:
    jobs = [
        job
        for number in range(losing + gaining)
        for job in ended(*[-0.4 if number < losing else 0.4] * 20, namespace=f"n{number}")
    ]
    assert bool(brake_of(jobs).why("new", "")) is braked
