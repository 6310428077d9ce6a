"""A pod's state machine under test: events in order, on a machine where every start succeeds."""

from typing import Any

from localcluster.backoff import BackOff
from localcluster.node import lifecycle as life
from localcluster.node.lifecycle import Event, Instruction
from localcluster.node.pod_spec import parse_pod
from localcluster.node.state_machine import PodMachine
from tests.unit.node.pods import moment

BACK_OFF = BackOff(base_seconds=10, cap_seconds=300, reset_seconds=600)
SIDECAR = {"restartPolicy": "Always"}


class MachineHarness:
    """A pod machine whose prepare and start instructions are carried out; all are recorded."""

    def __init__(self, raw: dict[str, Any], recovered: dict[str, Any] | None = None) -> None:
        self.machine = PodMachine(parse_pod(raw), BACK_OFF, moment(0), recovered)
        self.now = 0.0
        self.running: dict[str, int] = {}
        self.instructions: list[Instruction] = []

    def send(self, event: Event, at: float | None = None) -> "MachineHarness":
        """Handle an event and carry out prepare and start at once."""
        self.now = self.now if at is None else at
        pending: list[Event] = [event]
        while pending:
            for each in self.machine.handle(pending.pop(0), moment(self.now)):
                self.instructions.append(each)
                if isinstance(each, life.Prepare):
                    pending.append(life.Prepared())
                elif isinstance(each, life.Start):
                    self.running[each.container] = each.attempt
                    pending.append(life.Started(each.container, each.attempt))
        return self

    def begin(self) -> "MachineHarness":
        """Let the first instant pass."""
        return self.send(life.Tick())

    def exit(self, name: str, code: int, at: float | None = None) -> "MachineHarness":
        """Let a running container end."""
        return self.send(life.Exited(name, self.running.pop(name), code), at)

    def new_instructions(self) -> list[Instruction]:
        """Return the instructions since the last call, without Events for the user."""
        found: list[Instruction] = [
            each for each in self.instructions if not isinstance(each, life.EmitEvent)
        ]
        self.instructions = []
        return found

    @property
    def status(self) -> dict[str, Any]:
        """The status now."""
        return self.machine.status(moment(self.now))

    @property
    def phase(self) -> str:
        """The phase now."""
        return str(self.status["phase"])

    def state(self, index: int = 0) -> dict[str, Any]:
        """The state of a main container."""
        found: dict[str, Any] = self.status["containerStatuses"][index]["state"]
        return found

    def condition(self, kind: str) -> str:
        """The status of a condition."""
        return str(
            next(each["status"] for each in self.status["conditions"] if each["type"] == kind)
        )
