"""Lines are taken in within budgets of CPU time: a job with many does not delay the others."""

from collections.abc import Iterator

from autoscaler.logs.poller import LineIntake


class Clock:
    """CPU seconds, which only lines take."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class Job:
    """Lines that take 1 ms each."""

    def __init__(self, clock: Clock) -> None:
        self.clock, self.taken = clock, 0

    def lines(self, count: int) -> Iterator[None]:
        for _ in range(count):
            self.clock.seconds += 0.001
            self.taken += 1
            yield


def add(intake: LineIntake, name: str, job: Job, count: int) -> None:
    intake.add(name, job.lines(count), count)


def test_a_job_with_few_lines_has_them_taken_in_at_once() -> None:
    clock = Clock()
    intake, job = LineIntake(clock, clock), Job(clock)
    add(intake, "a", job, 90)
    intake.take()
    assert job.taken == 90
    assert not intake.waits("a")


def test_what_exceeds_the_budget_of_a_job_waits_for_the_next_tick() -> None:
    clock = Clock()
    intake, job = LineIntake(clock, clock), Job(clock)
    add(intake, "a", job, 150)
    taken = []
    for _ in range(3):
        intake.begin_tick()
        intake.take()
        intake.take()  # more reads come in within the tick
        taken.append(job.taken)
    assert taken == [100, 150, 150]
    assert not intake.waits("a")


def test_jobs_with_few_lines_are_taken_in_beside_any_number_with_many() -> None:
    clock = Clock()
    intake, large = LineIntake(clock, clock), [Job(clock) for _ in range(20)]
    small = Job(clock)
    for number, job in enumerate(large):
        add(intake, f"large-{number}", job, 100_000)
    add(intake, "small", small, 5)
    intake.take()
    assert small.taken == 5
    assert clock.seconds <= 0.32


def test_a_job_with_new_lines_comes_before_those_with_many() -> None:
    clock = Clock()
    intake, large, small = LineIntake(clock, clock), [Job(clock) for _ in range(80)], Job(clock)
    for number, job in enumerate(large):
        add(intake, f"large-{number}", job, 100_000)
    for _ in range(3):
        intake.begin_tick()
        intake.take()
    for tick in range(1, 20):
        intake.begin_tick()
        add(intake, "small", small, 5)
        intake.take()
        assert small.taken == 5 * tick


def test_where_time_is_short_those_that_waited_longest_come_first() -> None:
    clock = Clock()
    intake, jobs = LineIntake(clock, clock), [Job(clock) for _ in range(80)]
    for number, job in enumerate(jobs):
        add(intake, f"job-{number}", job, 100_000)
    for _ in range(27):
        intake.begin_tick()
        intake.take()
    assert min(job.taken for job in jobs) >= 90
    assert max(job.taken for job in jobs) <= 110


def test_lines_of_one_job_are_taken_in_the_order_of_their_reads() -> None:
    intake, taken = LineIntake(), list[int]()

    def lines(number: int) -> Iterator[None]:
        taken.append(number)
        yield

    for number in range(3):
        intake.add("a", lines(number), 1)
    intake.take()
    assert taken == [0, 1, 2]


def test_the_last_lines_of_a_job_are_taken_in_with_a_limit() -> None:
    clock = Clock()
    intake, job = LineIntake(clock, clock), Job(clock)
    add(intake, "a", job, 100_000)
    intake.finish("a")
    assert 400 <= job.taken <= 600
    assert not intake.waits("a")


def test_the_last_lines_of_many_jobs_share_one_limit_and_few_lines_are_always_taken_in() -> None:
    clock = Clock()
    intake, jobs = LineIntake(clock, clock), [Job(clock) for _ in range(10)]
    for number, job in enumerate(jobs):
        add(intake, f"job-{number}", job, 100_000 if number < 9 else 5)
        intake.finish(f"job-{number}")
    assert clock.seconds < 0.7
    assert jobs[-1].taken == 5


def test_many_jobs_of_a_costly_line_each_leave_time_to_another_namespace() -> None:
    clock = Clock()
    intake, honest = LineIntake(clock, clock), Job(clock)

    def costly() -> Iterator[None]:
        clock.seconds += 0.02
        yield

    for tick in range(1, 6):
        intake.begin_tick()
        for number in range(500):
            if not intake.waits(f"many-{number}"):
                intake.add(f"many-{number}", costly(), 1, "many")
        intake.add("honest", honest.lines(20), 20, "other")
        intake.take()
        assert honest.taken == 20 * tick


def test_reads_of_one_namespace_that_wait_leave_memory_to_the_others() -> None:
    """Also of few lines, which may be long."""
    intake = LineIntake()
    for number in range(1000):
        if intake.has_room("many", 250_000):
            intake.add(f"many-{number}", iter(()), 16, "many", 250_000)
    assert 30_000_000 < intake._memory["many"] < 34_000_000
    assert intake.has_room("other", 10_000_000)
    intake.begin_tick()
    intake.take()
    assert intake._memory.total() == 0
