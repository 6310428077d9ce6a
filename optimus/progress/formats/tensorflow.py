"""Log lines of TensorFlow: run hooks, TF-Slim, dist_mnist. Steps are the job's global ones.

``loss = 2.3, step = 100 (0.500 sec)`` of LoggingTensorHook is a line of pairs and is read as such
(name_value)."""

import re
from typing import Final

from optimus.progress.line_cleanup import without_prefix
from optimus.progress.metric_names import choose_loss
from optimus.progress.options import LogFormatOptions
from optimus.progress.parsed_line import NUMBER, UNDERSTOOD, Reading, Saved

_INT: Final = r"(\d{1,15})"
_SPEED: Final = re.compile(rf"(?:^|[ :])global_?step/sec: ({NUMBER})")
_SLIM: Final = re.compile(rf"global step {_INT}: loss = ({NUMBER}) \(({NUMBER}) sec/step\)")
_DIST_MNIST: Final = re.compile(
    rf"^\d+\.\d+: Worker \d+: training step \d+ done \(global step: {_INT}\)"
)
_SAVED: Final = re.compile(rf"Calling checkpoint listeners after saving checkpoint {_INT}")
_SAVING: Final = re.compile(rf"Saving checkpoints for {_INT} into ")
_EVALUATED: Final = re.compile(rf"Saving dict for global step {_INT}:|Loss for final step:")


def read(text: str, rules: LogFormatOptions) -> Reading | None:
    """Read one cleaned line, or ``None`` where it is none of these."""
    lowered = text.lower()
    if "step" not in lowered and "checkpoint" not in lowered:
        return None
    for part in (_checkpoint, _speed, _dist_mnist):
        reading = part(text)
        if reading is not None:
            return reading
    return _slim(text, rules)


def _checkpoint(text: str) -> Reading | None:
    for pattern, complete in ((_SAVED, True), (_SAVING, False)):
        found = pattern.search(text)
        if found:
            return Reading(saved=Saved(step=int(found[1]), complete=complete))
    return UNDERSTOOD if _EVALUATED.search(text) else None


def _speed(text: str) -> Reading | None:
    found = _SPEED.search(text)
    return Reading(steps_per_second=float(found[1])) if found else None


def _dist_mnist(text: str) -> Reading | None:
    found = _DIST_MNIST.search(without_prefix(text))
    return Reading(step=int(found[1])) if found else None


def _slim(text: str, rules: LogFormatOptions) -> Reading | None:
    found = _SLIM.search(text)
    if found is None:
        return None
    loss = choose_loss({"loss": float(found[2])}, rules.loss_metric)
    return Reading(step=int(found[1]), loss=loss, metrics=("loss",))
