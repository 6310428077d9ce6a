"""One PS's share of the parameters and the rules of its updates: no I/O, no clock.

Synchronous: the pushes of a step are kept, by worker, until all have come; then their mean is
applied once. Sums are formed in the order of the workers' indices, so that the result does not
depend on who came first. Asynchronous: every push is applied at once. A push that speaks of another
run or step is stale."""

from dataclasses import dataclass, field

import numpy as np

from examples.light.problem import Gradient, Vector


@dataclass
class Shard:
    """Parameters, the run that they belong to (0: none yet) and the number of updates made to
    them."""

    synchronous: bool
    trainer_count: int
    learning_rate: float
    run: int = 0
    step: int = 0
    values: Vector = field(default_factory=lambda: np.zeros(0))
    loss: float = 0.0
    """Mean loss of the examples of the last update."""
    over: bool = False
    _waiting: dict[int, Gradient] = field(default_factory=dict)

    def initialise(self, run: int, step: int, values: Vector) -> None:
        """Start a run at a step; whatever was held is dropped."""
        self.run, self.step, self.values, self.loss, self.over = run, step, values, 0.0, False
        self._waiting.clear()

    def forget(self) -> None:
        """Hold nothing any more."""
        self.initialise(0, 0, np.zeros(0))

    def accepts(self, run: int, step: int, size: int) -> bool:
        """Return whether a push of that run, step and number of values is accepted now."""
        in_step = step == self.step or not self.synchronous
        return run != 0 and run == self.run and in_step and size == self.values.size

    def push(self, sender: int, gradient: Gradient) -> bool:
        """Take an accepted push in; True when an update was made. A worker's second push replaces
        its first."""
        self._waiting[sender] = gradient
        if self.synchronous and len(self._waiting) < self.trainer_count:
            return False
        self._update([self._waiting[index] for index in sorted(self._waiting)])
        self._waiting.clear()
        return True

    def _update(self, gradients: list[Gradient]) -> None:
        examples = sum(gradient.examples for gradient in gradients)
        total = np.zeros_like(self.values)
        for gradient in gradients:
            total += gradient.values
        self.values = self.values - self.learning_rate * total / max(examples, 1)
        self.loss = sum(gradient.loss for gradient in gradients) / max(examples, 1)
        self.step += 1
