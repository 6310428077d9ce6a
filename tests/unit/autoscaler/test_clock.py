"""The time of day follows the wall clock without a jump."""

from hypothesis import given
from hypothesis import strategies as st

from autoscaler.controller import Clock


@given(
    steps=st.lists(
        st.tuples(st.floats(0.1, 100), st.sampled_from([0.0, 0.0, 700.0, -700.0, 1.0])), min_size=1
    )
)
def test_time_passes_evenly_whatever_the_wall_clock_is_set_to(
    steps: list[tuple[float, float]],
) -> None:
    timer, wall = [0.0], [1000.0]
    clock = Clock(lambda: wall[0], lambda: timer[0])
    for passed, jump in steps:
        before = clock.now()
        timer[0] += passed
        wall[0] += passed + jump
        assert 0.899 * passed <= clock.now() - before <= 1.101 * passed


def test_a_wall_clock_that_was_set_is_right_in_the_end() -> None:
    timer, wall = [0.0], [1000.0]
    clock = Clock(lambda: wall[0], lambda: timer[0])
    wall[0] -= 300.0
    for _ in range(3010):
        timer[0], wall[0] = timer[0] + 1.0, wall[0] + 1.0
        now = clock.now()
    assert abs(now - wall[0]) < 1e-6
