"""The thread that does one thing again and again."""

import threading

from extender.step_thread import StepThread


class FailingStep:
    """A step that always fails."""

    def __init__(self) -> None:
        self.several = threading.Event()
        self.count = 0

    def step(self) -> None:
        self.count += 1
        if self.count == 3:
            self.several.set()
        raise RuntimeError("this step failed")


def test_the_thread_steps_again_and_again_whatever_fails_until_it_is_stopped() -> None:
    failing = FailingStep()
    thread = StepThread("steps", failing.step, 0.001)
    thread.start()
    assert failing.several.wait(180)
    thread.stop()
    count = failing.count
    assert not thread._thread.is_alive()
    assert failing.count == count


def test_a_thread_that_was_never_started_can_be_stopped() -> None:
    failing = FailingStep()
    StepThread("steps", failing.step, 0.001).stop()
    assert failing.count == 0
