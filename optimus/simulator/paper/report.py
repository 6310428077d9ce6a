"""What the experiments found, as plain values for JSON: each ratio beside the published one."""

from collections.abc import Mapping, Sequence

from optimus.simulator.paper.published import Ratios
from optimus.simulator.summary import Estimate, PolicySummary

Row = dict[str, object]
_DIGITS = 4


def ratios_to_first(
    found: Sequence[PolicySummary], published: Mapping[str, Ratios]
) -> dict[str, Row]:
    """Every setup but the first, by name; ``published`` by the policy that a name begins with."""
    return {
        each.policy: _row(each, published.get(each.policy.split(",", maxsplit=1)[0]))
        for each in found[1:]
    }


def absolute(found: PolicySummary) -> Row:
    """One setup's figures, as means over seeds."""
    return {name: _rounded(estimate.mean) for name, estimate in found.figures.items()}


def ratio(here: Estimate, published: float | None = None) -> Row:
    """A ratio with its 95 % interval; ``deviation`` is by how much it is off the published one, as
    a part of it."""
    off = None if published is None or here.mean is None else here.mean / published - 1
    row = {"ratio": here.mean, "low": here.low, "high": here.high}
    figures: Row = {name: _rounded(value) for name, value in row.items()}
    return (
        figures
        if published is None
        else {**figures, "published": published, "deviation": _rounded(off)}
    )


def _row(found: PolicySummary, published: Ratios | None) -> Row:
    return {
        "jct": ratio(found.ratios["average_jct_seconds"], published and published.jct),
        "makespan": ratio(found.ratios["makespan_seconds"], published and published.makespan),
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
