"""Which of a line's values is the training loss.

A user's ``loss-metric`` is taken literally. Without one: ``loss``, else the cross-entropy, else the
negative log-likelihood, else the log of the perplexity, which is the exponential of the
cross-entropy. Never an accuracy."""

import math
from collections.abc import Mapping
from typing import Final

_LOSSES: Final = (
    "loss",
    "cross-entropy",
    "cross_entropy",
    "crossentropy",
    "softmax-cross-entropy",
    "nll-loss",
    "nll_loss",
)
_RATES: Final = ("lr", "LR", "learning_rate", "learning-rate")
_PERPLEXITIES: Final = ("perplexity", "ppl")


def choose_loss(values: Mapping[str, float], wanted: str | None) -> float | None:
    """The loss among a line's values by name, or ``None`` where there is none."""
    if wanted is not None:
        return values.get(wanted)
    lowered = {name.lower(): value for name, value in values.items()}
    for name in _LOSSES:
        if name in lowered:
            return lowered[name]
    for name in _PERPLEXITIES:
        if name in lowered:
            return _log(lowered[name])
    return None


def learning_rate(values: Mapping[str, float]) -> float | None:
    """The learning rate among a line's values by name, where it is one."""
    rate = next((values[name] for name in _RATES if name in values), None)
    return rate if rate is not None and 0 < rate < math.inf else None


def _log(perplexity: float) -> float:
    return math.log(perplexity) if perplexity > 0 else math.nan
