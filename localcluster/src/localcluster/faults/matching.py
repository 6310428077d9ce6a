"""Which call meets which fault: a count per fault, and no I/O.

Every fault counts every call that it is about, also those that another fault takes: so "the third
patch" means the same whatever else is injected. The first fault in order that is due has the call.
"""

from dataclasses import dataclass

from localcluster.faults.faults import Call, Fault


@dataclass(frozen=True)
class Plan:
    """Faults, and how many calls each has counted so far."""

    faults: tuple[Fault, ...] = ()
    counted: tuple[int, ...] = ()

    @classmethod
    def of(cls, *faults: Fault) -> "Plan":
        """A plan that has counted nothing yet."""
        return cls(faults, (0,) * len(faults))

    def meet(self, call: Call) -> "tuple[Plan, Fault | None]":
        """The plan after this call, and the fault that it meets."""
        counted = tuple(
            count + fault.where.match(call)
            for fault, count in zip(self.faults, self.counted, strict=True)
        )
        due = (
            fault
            for fault, before, now in zip(self.faults, self.counted, counted, strict=True)
            if now > before and fault.nth <= now < fault.nth + fault.times
        )
        return Plan(self.faults, counted), next(due, None)

    @property
    def is_spent(self) -> bool:
        """Whether every fault has happened as often as it was to."""
        return all(
            count >= fault.nth + fault.times - 1
            for fault, count in zip(self.faults, self.counted, strict=True)
        )
