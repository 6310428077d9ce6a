"""When a component that died is started again."""

from hypothesis import given
from hypothesis import strategies as st

from localcluster.backoff import BackOff
from localcluster.supervisor.policy import Lifecycle, Phase, describe_exit
from tests.cases import cases

BACK_OFF = BackOff(base_seconds=0.5, cap_seconds=8.0, reset_seconds=20.0)


def delay_seconds(deaths: int) -> float:
    """The delay after so many deaths in a row."""
    life = Lifecycle()
    for _ in range(deaths):
        life = life.started(0.0).died("x", 0.0, BACK_OFF)
    return life.delay_seconds


@given(st.integers(1, 100))
def test_the_delay_grows_from_death_to_death_up_to_a_limit(deaths: int) -> None:
    assert 0.5 <= delay_seconds(deaths) <= delay_seconds(deaths + 1) <= 8.0


@cases(
    ("deaths", "delay"),
    {"the first death": (1, 0.5), "doubled twice": (3, 2.0), "never longer than this": (9, 8.0)},
)
def test_the_delay_doubles(deaths: int, delay: float) -> None:
    assert delay_seconds(deaths) == delay


def test_a_component_starts_exits_and_is_restarted() -> None:
    life = Lifecycle()
    assert (life.phase, life.restarts, life.due(99.0)) == (Phase.WAITING, 0, False)
    life = life.started(100.0).became_ready()
    assert (life.phase, life.restarts) == (Phase.READY, 0)
    life = life.died("was killed by signal 9", 101.0, BACK_OFF)
    assert (life.phase, life.last_exit, life.retry_at) == (
        Phase.BACKING_OFF,
        "was killed by signal 9",
        101.5,
    )
    assert not life.due(101.4)
    assert life.due(101.5)
    life = life.started(101.5)
    assert (life.phase, life.restarts, life.retry_at) == (Phase.STARTING, 1, None)


def test_quick_exits_add_up_and_a_steady_run_resets_the_count() -> None:
    life = Lifecycle().started(0.0).died("x", 1.0, BACK_OFF).started(2.0).died("x", 3.0, BACK_OFF)
    assert life.deaths_in_a_row == 2
    life = life.started(10.0).died("x", 30.0, BACK_OFF)
    assert life.deaths_in_a_row == 1
    assert life.retry_at == 30.5


def test_what_was_ended_on_purpose_is_never_due() -> None:
    life = Lifecycle().started(0.0).died("x", 1.0, BACK_OFF).stopped()
    assert (life.phase, life.due(1e9)) == (Phase.STOPPED, False)


@cases(
    ("code", "sentence"),
    {"an exit status": (2, "ended with status 2"), "a signal": (-9, "was killed by signal 9")},
)
def test_how_a_process_ended_in_words(code: int, sentence: str) -> None:
    assert describe_exit(code) == sentence
