"""Two autoscalers and one job: what happens to it when one of them is killed, frozen or cut off.

Witnesses are the calls that each proxy passed on to the API server with the server's answers, and,
where there is one, the API server's own audit log."""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from localcluster.faults.faults import Call, Calls, Fault, Freeze
from localcluster.faults.traffic import ServedCall
from optimus.kube.times import parse_instant
from tests.harness.api import LEASES, Json, in_namespace
from tests.harness.faults.fault_cases import RESUMES, SUSPENDS
from tests.harness.faults.fault_scenario import FaultScenario
from tests.harness.faults.processes import AUTOSCALER, EXTENDER
from tests.harness.light_jobs import LightJob
from tests.harness.optimus_cluster import SYSTEM_NAMESPACE

SECOND: Final = f"{AUTOSCALER}-2"
NAMES: Final = (EXTENDER, AUTOSCALER, SECOND)
_READS: Final = frozenset({"GET", "HEAD"})


@dataclass(frozen=True)
class Write:
    """A write that the API server has carried out: when, by which process, to what."""

    at: float
    by: str
    target: str


class LeaderScenario:
    """The scenario of the fault tests, with a second autoscaler."""

    def __init__(self, scenario: FaultScenario) -> None:
        self.scenario, self.product = scenario, scenario.product

    # --- who leads

    def lease(self) -> Json:
        """The Lease's spec; empty without one."""
        path = in_namespace(LEASES, SYSTEM_NAMESPACE, "leases", "optimus-autoscaler")
        return dict((self.scenario.api.find(path) or {}).get("spec") or {})

    def holder(self) -> str:
        """The identity that leads, or led last."""
        return str(self.lease().get("holderIdentity") or "")

    def both(self) -> tuple[str, str]:
        """The leader and the standby, once there are both."""
        for name in (AUTOSCALER, SECOND):
            if self.product.processes[name].poll() is not None:
                self.product.start_again(name)
        leader = self.scenario.wait(self._leader, "one of the two leads")
        standby = SECOND if leader == AUTOSCALER else AUTOSCALER
        self.scenario.wait(
            lambda: f"leader: {self.holder()}; this instance stands by" in self._tail(standby),
            f"{standby} stands by",
        )
        return leader, standby

    def _leader(self) -> str:
        holder = self.holder()
        acts = f"leader: {holder}; this instance acts"
        found = [
            name
            for name in (AUTOSCALER, SECOND)
            if holder and acts in self.product.log(name) and self._runs(name)
        ]
        return found[0] if found else ""

    def _runs(self, name: str) -> bool:
        return self.product.processes[name].poll() is None

    def _tail(self, name: str) -> str:
        return self.product.log(name)[-20_000:]

    # --- what is done to it

    def suspended_job(self, leader: str) -> LightJob:
        """Ask for a rescale, and return its job once the leader has suspended it."""
        job = self.scenario.training_job()
        rescaled = self.scenario.rescale(job)
        self.wait_call(leader, SUSPENDS)
        return rescaled

    def wait_call(self, name: str, calls: Calls) -> None:
        proxy = self.scenario.proxy(name)
        self.scenario.wait(
            lambda: any(calls.match(each.call) for each in proxy.calls), f"{name} calls {calls}"
        )

    def send(self, name: str, number: signal.Signals) -> float:
        """Send a signal to a process; returns when (epoch)."""
        self.product.processes[name].send_signal(number)
        return time.time()

    def wait_leads(self, name: str) -> None:
        """Wait until a process leads."""
        self.scenario.wait(lambda: self._leader() == name, f"{name} leads")

    def has_released(self, name: str) -> bool:
        """Whether a process has given its Lease back, so that nobody waits until it runs out."""
        return any(
            "/leases" in each.call.target
            and b'"holderIdentity":""' in each.call.body
            and 200 <= each.status < 300
            for each in self.scenario.proxy(name).calls
        )

    def cut_off_at(self, name: str, calls: Calls, seconds: float) -> None:
        """From its next such call on nothing of the process passes for so long; then all of it
        arrives, late."""
        self.scenario.proxy(name).inject(Fault(calls, Freeze(seconds)))

    # --- what must hold

    def writes(self) -> list[Write]:
        """Every write of both autoscalers that was carried out, in order, but those to the Lease
        and Events, which no job depends on."""
        found = [
            Write(each.at, name, each.call.target)
            for name in (AUTOSCALER, SECOND)
            for each in self.scenario.proxy(name).calls
            if _is_write(each.call) and 200 <= each.status < 300
        ]
        return sorted(found, key=lambda each: each.at)

    def turns(self) -> list[str]:
        """Who wrote, without repetitions."""
        turns: list[str] = []
        for each in self.writes():
            if turns[-1:] != [each.by]:
                turns.append(each.by)
        return turns

    def attempts(self, name: str, since: float) -> list[ServedCall]:
        """The writes that a process has sent since an instant (epoch), whatever became of them."""
        return [
            each
            for each in self.scenario.proxy(name).calls
            if each.at >= since and _is_write(each.call)
        ]

    def patches(self) -> list[str]:
        """What was done to the job by both, in order: suspend or resume."""
        done = [
            ("suspend" if SUSPENDS.match(each.call) else "resume", each.at)
            for name in (AUTOSCALER, SECOND)
            for each in self.scenario.proxy(name).calls
            if 200 <= each.status < 300 and (SUSPENDS.match(each.call) or RESUMES.match(each.call))
        ]
        return [what for what, _ in sorted(done, key=lambda each: each[1])]

    def rescaled_once(self, job: LightJob, turns: list[str]) -> None:
        """The job was suspended once and resumed once, by instances that took turns."""
        self.scenario.wait_training(job)
        assert self.patches() == ["suspend", "resume"], self.scenario.describe()
        assert self.turns() == turns, self.writes()
        assert not self.audited_overlaps()

    def audited_overlaps(self) -> list[str]:
        """Writes that the API server's audit log shows of an instance after another has led."""
        path = self.scenario.optimus.cluster.paths.audit_log
        if not path.exists():
            return []
        ended: set[str] = set()
        holder, wrong = "", list[str]()
        for each in sorted(_audited(path.read_bytes()), key=lambda entry: entry[0]):
            _, agent, resource, verb = each
            if resource == "leases" and verb == "take" and agent != holder:
                ended |= {holder}
                holder = agent
            elif resource in ("tfjobs", "trainingprofiles") and agent in ended:
                wrong.append(str(each))
        return wrong


def _is_write(call: Call) -> bool:
    if call.method in _READS:
        return False
    return "/leases" not in call.target and "/events" not in call.target


def _audited(log: bytes) -> Iterator[tuple[float, str, str, str]]:
    """When it had ended, the instance, the resource and what was done, of each accepted write."""
    for line in log.splitlines():
        entry: dict[str, Any] = msgspec.json.decode(line)
        code = (entry.get("responseStatus") or {}).get("code", 0)
        agent = str(entry.get("userAgent", ""))
        if not agent.startswith("optimus-autoscaler/") or not 200 <= code < 300:
            continue
        resource = str((entry.get("objectRef") or {}).get("resource"))
        verb = "take" if resource == "leases" else str(entry["verb"])
        yield parse_instant(entry["stageTimestamp"]), agent, resource, verb
