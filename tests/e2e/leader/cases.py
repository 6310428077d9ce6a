"""What may happen to a leader in the middle of a rescale."""

import signal
import time
from typing import Final

from tests.e2e.leader.leader_scenario import LeaderScenario
from tests.harness.faults.fault_cases import LISTS_PODS, SUSPENDS

FROZEN_SECONDS: Final = 20.0
_ANSWERED_AFTER_SECONDS: Final = 3.0
_CUT_OFF_SECONDS: Final = 30.0
"""Much longer than the other one takes to lead."""


def killed(scenario: LeaderScenario) -> None:
    """The standby completes the rescale of a leader that was killed."""
    leader, standby = scenario.both()
    job = scenario.suspended_job(leader)
    scenario.send(leader, signal.SIGKILL)
    scenario.wait_leads(standby)
    scenario.rescaled_once(job, [leader, standby])


def frozen(scenario: LeaderScenario) -> None:
    """A leader that is frozen while it reads what it decides on, and wakes with the answer after
    20 s, sends no write, and ends."""
    leader, standby = scenario.both()
    job = scenario.scenario.training_job()
    scenario.cut_off_at(leader, LISTS_PODS, _ANSWERED_AFTER_SECONDS)
    job = scenario.scenario.rescale(job)
    proxy = scenario.scenario.proxy(leader)
    scenario.scenario.wait(lambda: proxy.is_spent, f"{leader} lists the pods")
    since = scenario.send(leader, signal.SIGSTOP)
    try:
        scenario.wait_leads(standby)
        while time.time() < since + FROZEN_SECONDS:
            time.sleep(0.5)
        woken_at = time.time()
    finally:
        scenario.send(leader, signal.SIGCONT)
    process = scenario.product.processes[leader]
    scenario.scenario.wait(lambda: process.poll() is not None, f"{leader} ends")
    assert scenario.attempts(leader, woken_at) == []
    scenario.rescaled_once(job, [leader, standby])


def cut_off(scenario: LeaderScenario) -> None:
    """The suspension of a leader that was cut off arrives when another one leads: it is refused."""
    leader, standby = scenario.both()
    job = scenario.scenario.training_job()
    scenario.cut_off_at(leader, SUSPENDS, _CUT_OFF_SECONDS)
    rescaled = scenario.scenario.rescale(job)
    scenario.wait_leads(standby)
    process = scenario.product.processes[leader]
    scenario.scenario.wait(lambda: process.poll() is not None, f"{leader} ends")

    def answers() -> list[int]:
        calls = scenario.scenario.proxy(leader).calls
        return [each.status for each in calls if SUSPENDS.match(each.call)]

    late = scenario.scenario.wait(answers, "the suspension arrives")
    assert late == [409], scenario.scenario.describe()
    scenario.rescaled_once(rescaled, [leader, standby])


def stopped(scenario: LeaderScenario) -> None:
    """A leader that is stopped in order gives its Lease back; the standby completes its rescale."""
    leader, standby = scenario.both()
    job = scenario.suspended_job(leader)
    scenario.send(leader, signal.SIGTERM)
    scenario.wait_leads(standby)
    assert scenario.has_released(leader), scenario.scenario.describe()
    assert scenario.product.processes[leader].wait(120) == 0
    scenario.rescaled_once(job, [leader, standby])


CASES: Final = {"killed": killed, "frozen": frozen, "cut off": cut_off, "stopped": stopped}
