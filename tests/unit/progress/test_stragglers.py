"""Which workers are far slower than the others, by what each prints."""

from optimus.jobs import TrainingMode
from optimus.progress.parsed_line import LogFormatOptions
from optimus.progress.stragglers import (
    ComparedWorker,
    StragglerConfig,
    WindowSpeed,
    WorkerSpeeds,
    find_stragglers,
    window_speed,
)
from optimus.progress.types import LogLine
from tests.cases import cases

CONFIG = StragglerConfig(windows=3, window_seconds=60.0)
ASYNC = LogFormatOptions()
SYNC = LogFormatOptions(mode=TrainingMode.SYNC)


def lines(*texts: str, start: float = 1_000.0, every: float = 10.0) -> list[LogLine]:
    return [LogLine(start + every * number, text) for number, text in enumerate(texts)]


def printed(*speeds: float, start: float = 1_000.0) -> list[LogLine]:
    texts = (f"step={n} loss=0.5 samples_per_sec={speed}" for n, speed in enumerate(speeds, 1))
    return lines(*texts, start=start)


@cases(
    ("options", "texts", "speed"),
    {
        "an asynchronous worker prints its own examples per second": (
            ASYNC,
            ("step=1 loss=2 samples_per_sec=90", "step=7 loss=2 samples_per_sec=110"),
            (100.0, "samples/s"),
        ),
        "one figure is too few": (ASYNC, ("step=1 loss=2 samples_per_sec=90",), None),
        "without a printed speed its own batches count": (
            ASYNC,
            tuple(f"epoch=1 batch={20 * n} loss=0.5" for n in range(1, 6)),
            (2.0, "batches/s"),
        ),
        "a global step is the job's": (
            ASYNC,
            tuple(f"step={20 * n} loss=0.5" for n in range(1, 6)),
            None,
        ),
        "its time of computing counts where nothing else does": (
            ASYNC,
            tuple(f"step={20 * n} loss=0.5 compute_seconds=0.2" for n in range(1, 6)),
            (5.0, "steps/s"),
        ),
        "synchronous workers print one common speed": (
            SYNC,
            tuple(f"step={n} loss=0.5 samples_per_sec=90" for n in range(1, 6)),
            None,
        ),
        "of them the time of computing counts, on any line": (
            SYNC,
            ("step=5 loss=1 compute_seconds=0.5", "compute_seconds=0.5", "compute_seconds=nan"),
            (2.0, "steps/s"),
        ),
        "other lines tell nothing": (ASYNC, ("hello", "world"), None),
        "a speed of nothing is none": (
            ASYNC,
            ("step=1 loss=1 samples_per_sec=0", "step=2 loss=1 samples_per_sec=0"),
            None,
        ),
    },
)
def test_a_worker_s_own_speed(
    options: LogFormatOptions, texts: tuple[str, ...], speed: tuple[float, str] | None
) -> None:
    assert window_speed(lines(*texts), options) == speed


def worker(
    index: int, *speeds: float, kind: str = "", unit: str = "samples/s", quiet: int = 0
) -> ComparedWorker:
    log = WorkerSpeeds(0.0, [WindowSpeed(each, unit) for each in speeds], quiet)
    return ComparedWorker(index, f"n{index}", kind, log)


def found(*workers: ComparedWorker, config: StragglerConfig = CONFIG) -> list[int]:
    return [each.index for each in find_stragglers(workers, config)]


STEADY = (100.0, 100.0, 100.0)


@cases(
    ("workers", "indices"),
    {
        "one of three is below half the median in every window": (
            [worker(0, *STEADY), worker(1, 40, 45, 42), worker(2, *STEADY)],
            [1],
        ),
        "in one window it was not": (
            [worker(0, *STEADY), worker(1, 40, 60, 42), worker(2, *STEADY)],
            [],
        ),
        "half the median is not below it": (
            [worker(0, *STEADY), worker(1, 50, 50, 50), worker(2, *STEADY)],
            [],
        ),
        "a worker that has only just started has too few windows": (
            [worker(0, *STEADY), worker(1, 20, 20), worker(2, *STEADY)],
            [],
        ),
        "of two nobody knows which is usual": ([worker(0, *STEADY), worker(1, 20, 20, 20)], []),
        "one that prints nothing of itself does not count among three": (
            [worker(0, *STEADY), worker(1, 20, 20, 20), worker(2)],
            [],
        ),
        "where half are slow neither speed is the usual one": (
            [worker(0, *STEADY), worker(1, *STEADY), worker(2, 1, 1, 1), worker(3, 1, 1, 1)],
            [],
        ),
        "two of seven": (
            [*(worker(n, *STEADY) for n in range(5)), worker(5, 9, 9, 9), worker(6, 30, 30, 30)],
            [5, 6],
        ),
        "a slower kind of node is no fault of a node": (
            [
                *(worker(n, *STEADY, kind="fast") for n in range(3)),
                *(worker(n, 30, 30, 30, kind="slow") for n in range(3, 6)),
            ],
            [],
        ),
        "each kind has its own usual speed": (
            [
                *(worker(n, *STEADY, kind="fast") for n in range(3)),
                *(worker(n, 30, 30, 30, kind="slow") for n in range(3, 5)),
                worker(5, 9, 9, 9, kind="slow"),
            ],
            [5],
        ),
        "speeds of different units are not compared": (
            [*(worker(n, *STEADY) for n in range(3)), worker(3, 2, 2, 2, unit="batches/s")],
            [],
        ),
        "noise": ([worker(0, 100, 20, 130), worker(1, 90, 160, 100), worker(2, 55, 70, 60)], []),
        "no workers": ([], []),
    },
)
def test_which_workers_are_stragglers(workers: list[ComparedWorker], indices: list[int]) -> None:
    assert found(*workers) == indices


def test_the_fraction_is_a_setting() -> None:
    workers = [worker(0, *STEADY), worker(1, 60, 60, 60), worker(2, *STEADY)]
    assert found(*workers) == []
    assert found(*workers, config=StragglerConfig(windows=3, fraction=0.7)) == [1]


def test_a_straggler_is_reported_with_its_figures() -> None:
    workers = [worker(0, *STEADY), worker(1, 20, 24, 26), worker(2, *STEADY)]
    (straggler,) = find_stragglers(workers, CONFIG)
    assert str(straggler) == (
        "worker 1 on n1 trains at 24 % of the median of 3 workers, in each of 3 windows"
    )


def test_windows_follow_one_another_and_the_last_ones_are_kept() -> None:
    log = WorkerSpeeds(1_000.0)
    for number, speed in enumerate((10.0, 20.0, 30.0, 40.0)):
        assert log.take(printed(speed, speed, start=1_010.0 + 60 * number), ASYNC, CONFIG)
    assert [each.value for each in log.speeds] == [20.0, 30.0, 40.0]
    assert log.read_until == 1_200.0


def test_lines_of_the_warm_up_and_of_earlier_windows_do_not_count_again() -> None:
    log = WorkerSpeeds(1_015.0)
    assert log.take(printed(1, 1, 50, 50), ASYNC, CONFIG)
    assert not log.take(printed(1, 1, 50, 50), ASYNC, CONFIG)
    assert [each.value for each in log.speeds] == [50.0]


def test_too_few_lines_are_read_again_with_those_after_them() -> None:
    log = WorkerSpeeds(1_000.0)
    first = printed(40, start=1_010.0)
    assert not log.take(first, ASYNC, CONFIG)
    assert log.read_until == 1_000.0
    assert log.take([*first, *printed(60, start=1_070.0)], ASYNC, CONFIG)
    assert log.speeds == [WindowSpeed(50.0, "samples/s")]


def test_lines_without_figures_are_passed_over_in_the_end() -> None:
    log = WorkerSpeeds(1_000.0)
    assert not log.take(lines("hello", start=1_590.0), ASYNC, CONFIG)
    assert log.read_until == 1_000.0
    assert not log.take(lines("hello", start=1_610.0), ASYNC, CONFIG)
    assert log.read_until == 1_610.0


def test_a_log_that_stopped_is_no_evidence_any_more() -> None:
    log = WorkerSpeeds(1_000.0)
    assert log.take(printed(10, 10, start=1_010.0), ASYNC, CONFIG)
    assert not any(log.take([], ASYNC, CONFIG) for _ in range(2))
    assert log.speeds
    assert not log.take([], ASYNC, CONFIG)
    assert not log.speeds
    assert log.take(printed(10, 10, start=1_410.0), ASYNC, CONFIG)
    assert len(log.speeds) == 1


def test_another_unit_starts_over() -> None:
    log = WorkerSpeeds(1_000.0)
    assert log.take(printed(10, 10, start=1_010.0), ASYNC, CONFIG)
    batches = lines(*(f"epoch=1 batch={n} loss=0.5" for n in range(1, 6)), start=1_100.0)
    assert log.take(batches, ASYNC, CONFIG)
    assert [each.unit for each in log.speeds] == ["batches/s"]


def test_of_a_long_read_the_last_lines_count() -> None:
    slow, fast = [10.0] * 300, [50.0] * 200
    assert window_speed(printed(*slow, *fast), ASYNC) == (50.0, "samples/s")
