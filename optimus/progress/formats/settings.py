"""What programs print of the whole run at its top: arguments, numbers of steps and epochs.

``Namespace(batch_size=128, lr=0.1, lr_decay_epoch='100,150', num_epochs=200, ...)``, a dictionary
of arguments, ``Total optimization steps = 1500``, ``training steps=800``, ``Num Epochs = 3``. It
gives the declared end of the run and the schedule of its learning rate."""

import re
from collections.abc import Mapping
from typing import Final

from optimus.progress.parsed_line import LogFormatOptions, ParsedLine
from optimus.progress.types import Declared

MARKERS: Final = ("Namespace(", "epochs", "Epochs", "steps")
_ARGUMENT: Final = re.compile(
    r"""(?<![\w'"-])["']?([A-Za-z_]\w{0,40})["']?\s?[=:]\s?(?:'([^']{0,200})'|"([^"]{0,200})"|([\w.+-]{1,40}))"""
)
_TOTAL: Final = re.compile(
    r"\b(?:(num(?:ber of)?|total|max(?:imum)?)[ _](?:training |train |optimi[sz]ation )?"
    r"|(?:train(?:ing)?|optimi[sz]ation) )(epochs|steps|iterations)\s?[=:]\s?"
    r"(\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?!,)"
    r"(?:\.0*)?s?\b",
    re.IGNORECASE,
)
_EPOCHS: Final = (
    "num_epochs",
    "epochs",
    "num_epoch",
    "max_epochs",
    "n_epochs",
    "num_train_epochs",
    "total_epochs",
    "train_epochs",
    "nb_epochs",
)
_STEPS: Final = (
    "max_steps",
    "num_steps",
    "total_steps",
    "num_train_steps",
    "train_steps",
    "max_iter",
    "max_iters",
    "max_update",
    "num_iterations",
    "number_of_steps",
)
_BATCHES: Final = ("batch_size", "train_batch_size", "per_device_train_batch_size")
_RATES: Final = ("lr", "learning_rate", "base_lr")
_MODES: Final = (
    "lr_mode",
    "lr_scheduler",
    "lr_schedule",
    "lr_scheduler_type",
    "lr_policy",
    "lr_decay",
)
_DROPS: Final = ("lr_decay_epoch", "lr_step_epochs", "lr_steps", "milestones", "lr_decay_epochs")
_FACTORS: Final = ("lr_decay", "lr_factor", "lr_decay_factor", "gamma")
_KNOWN_MODES: Final = ("step", "cosine", "linear", "poly", "polynomial", "constant", "exponential")


def parse(text: str, _: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it declares nothing."""
    found = _arguments(text)
    declared = _of_arguments(found) if found else _of_total(text)
    return None if declared is None else ParsedLine(declared=declared)


def _arguments(text: str) -> Mapping[str, str]:
    _, opened, rest = text.partition("Namespace(")
    if not opened:
        start = text.find("{'")
        if start < 0 or "epochs'" not in text:
            return {}
        rest = text[start:]
    return {
        found[1].lower(): found[2] or found[3] or found[4] or ""
        for found in _ARGUMENT.finditer(rest)
    }


def _of_total(text: str) -> Declared | None:
    found = _TOTAL.search(text)
    if found is None:
        return None
    number = int(found[3].replace(",", ""))
    return Declared(epochs=number) if found[2].lower() == "epochs" else Declared(steps=number)


def _of_arguments(given: Mapping[str, str]) -> Declared | None:
    mode = next((given[name] for name in _MODES if given.get(name) in _KNOWN_MODES), None)
    drops = next((given[name] for name in _DROPS if given.get(name)), "")
    places = tuple(float(each) for each in re.findall(r"\d{1,9}(?:\.\d+)?", drops))
    epochs, period = _whole(given, _EPOCHS), _number(given, ("lr_decay_period",))
    if not places and period and epochs:
        places = tuple(period * n for n in range(1, int(min(epochs / period, 100)) + 1))
    is_step = mode in (None, "step") and bool(places)
    declared = Declared(
        epochs=epochs,
        steps=_whole(given, _STEPS),
        batch=_whole(given, _BATCHES),
        learning_rate=_number(given, _RATES),
        schedule="step" if is_step else mode,
        drops=tuple(place for place in places if not epochs or place < epochs) if is_step else (),
        drop_factor=_number(given, _FACTORS) if is_step else None,
        warmup_epochs=_number(given, ("warmup_epochs",)),
        warmup_steps=_number(given, ("warmup_steps", "lr_warmup", "num_warmup_steps")),
    )
    return None if declared == Declared() else declared


def _number(given: Mapping[str, str], names: tuple[str, ...]) -> float | None:
    texts = (given[name] for name in names if name in given)
    found = next((each for each in texts if re.fullmatch(r"\d+\.?\d*(?:e[+-]?\d+)?", each)), None)
    value = None if found is None else float(found)
    return value if value is not None and 0 < value < 1e15 else None


def _whole(given: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    value = _number(given, names)
    return int(value) if value is not None and value.is_integer() else None
