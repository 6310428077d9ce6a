"""A placement rule on a real cluster: what pods and nodes ask for besides, around any rule.

Rules of pods (affinity, spread, host ports, volumes), nodes that a job avoids and preferences among
nodes are the same whatever places the replicas of a gang.
"""

from dataclasses import dataclass

from optimus.placement.capacity import Capacity
from optimus.placement.gang import DoesNotFit, Gang, GangRule, Placement
from optimus.placement.rule_search import PlaceWithoutRules, place_by_rules
from optimus.placement.rules import Surroundings
from optimus.placement.topology import NodePreferences


@dataclass(frozen=True, slots=True)
class WholeGangRule:
    """Places gangs by ``place_alone``, within what pods and nodes ask for."""

    place_alone: PlaceWithoutRules
    preferences: NodePreferences | None = None

    @classmethod
    def of(cls, rule: GangRule, preferences: NodePreferences | None = None) -> "WholeGangRule":
        """The same around a rule that knows nothing of this."""
        return cls(rule.place, preferences)

    def place(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        """Choose nodes for the gang's unbound replicas; takes nothing."""
        if gang.avoided and gang.unbound:
            answer = self._place_preferred(gang.without_avoided(), capacity)
            if isinstance(answer, Placement):
                return answer
        return self._place_preferred(gang, capacity)

    def _place_preferred(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        answer = self._place_anywhere(gang, capacity)
        if self.preferences is None or isinstance(answer, DoesNotFit):
            return answer
        return self.preferences.place(gang, capacity, answer, self._place_anywhere)

    def _place_anywhere(self, gang: Gang, capacity: Capacity) -> Placement | DoesNotFit:
        if gang.surroundings is not None and gang.unbound:
            return place_by_rules(gang, gang.surroundings, capacity, self.place_alone)
        answer = self.place_alone(gang, capacity)
        if isinstance(answer, DoesNotFit) and gang.differs_within_roles:
            # Theorem 1 knows one kind of PS and one of workers: the largest amount, on nodes that
            # admit all of them.
            return place_by_rules(gang, Surroundings(), capacity, self.place_alone)
        return answer
