"""The API server's time, as its answers tell it."""

from optimus.kube.server_clock import ServerClock


def test_the_date_of_an_answer_counts_and_the_time_since_then() -> None:
    timer = iter([5.0, 15.0])
    clock = ServerClock(now=lambda: 900.0, timer=lambda: next(timer))
    clock.observe("Thu, 01 Jan 1970 00:01:40 GMT")
    assert clock.now() == 110.0


def test_before_the_first_date_the_local_clock_counts() -> None:
    clock = ServerClock(now=lambda: 900.0)
    for date in (None, "", "soon", "Thu, 99 Jan 1970 00:01:40 GMT"):
        clock.observe(date)
    assert clock.now() == 900.0
