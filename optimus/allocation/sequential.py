"""One job after the other: the step rule of the policies that let a job grow as far as it can
before the next one."""

from dataclasses import dataclass

import numpy as np

from optimus.allocation.greedy import NO_STEP, Gains, GrowthState, Steps
from optimus.allocation.remaining_time import RemainingSeconds


@dataclass(frozen=True, slots=True, eq=False)
class InTurn:
    """Every step of a job comes before any step of one with a lower score, shape (jobs,).

    With ``stops_without_gain`` a job stops growing where a step makes it no faster; otherwise only
    the room stops it."""

    seconds: RemainingSeconds
    score: Gains
    stops_without_gain: bool

    def next_steps(self, here: GrowthState) -> Steps:
        """One PS and one worker; one alone where the other is at its bound."""
        more_ps, more_workers = here.pair()
        going = (more_ps + more_workers > 0) & here.has_room(more_ps, more_workers)
        if self.stops_without_gain:
            now = self.seconds(here.rows, here.ps, here.workers)
            going &= self.seconds(here.rows, here.ps + more_ps, here.workers + more_workers) < now
        return Steps(np.where(going, self.score[here.rows], NO_STEP), more_ps, more_workers)
