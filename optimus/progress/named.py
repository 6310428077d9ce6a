"""What named numbers say together: the cells of a table's row, the content of an object.

Which name is a position's is decided here alone. An epoch with a decimal point (``0.32``, ``1.0``)
is how many are done, one without (``3``) is the number of the running one."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from optimus.progress.metric_names import describe
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, SavedCheckpoint
from optimus.progress.printed_values import number_of
from optimus.progress.types import Declared

_FRONT: Final = re.compile(r"^(?:train(?:ing|er)?|current|cur|progress|data|metadata)_+(?=[a-z])")
_BACK: Final = re.compile(r"_(?:idx|index|id|no|num|number)$")
_KINDS: Final = {
    "epoch": ("epoch", "epochs", "ep", "pass", "num_epoch"),
    "step": (
        "global_step",
        "global_steps",
        "step",
        "steps",
        "num_updates",
        "updates",
        "total_timesteps",
        "timesteps",
    ),
    "iteration": ("iteration", "iterations", "iter", "iters", "it"),
    "batch": ("batch", "batches", "minibatch"),
    "epochs": ("total_epochs", "num_epochs", "max_epochs", "n_epochs", "num_train_epochs"),
    "steps": ("total_steps", "max_steps", "num_steps", "total_iters", "max_iters"),
    "checkpoint": ("checkpoint", "checkpoint_step"),
    "speed": ("samples_per_sec", "samples_per_second", "examples/sec", "samples/sec"),
}
_BY_NAME: Final = {name: kind for kind, names in _KINDS.items() for name in names}
LABELS: Final = frozenset({"name", "key", "tag", "metric", "metric_name", "metricName", "scalar"})
VALUE_OF: Final = re.compile(r"(?:^|/)(?:metric_?)?(?:value|result)$", re.IGNORECASE)
_FIRM: Final = ("global", "num_updates", "timesteps")
_MOST: Final = 1e15


@lru_cache(maxsize=2048)
def kind_of(name: str) -> str:
    """Return which position or total a name is of; empty for a value's."""
    plain = re.sub(r"[\s./-]+", "_", name.strip().lower()).strip("_")
    if plain in _BY_NAME or name.lower() in _BY_NAME:
        return _BY_NAME.get(plain) or _BY_NAME[name.lower()]
    return _BY_NAME.get(_BACK.sub("", _FRONT.sub("", plain)), "")


def by_label(given: Mapping[str, str], texts: Mapping[str, str], label: str = "") -> dict[str, str]:
    """These numbers by name, where the name of one is a text of its own: ``metric=loss value=1``;
    else ``label`` is its name."""
    label = next((texts[name] for name in texts if name in LABELS), label)
    known = describe(label).is_metric
    return {label if known and VALUE_OF.search(name) else name: given[name] for name in given}


def read_named(
    given: Mapping[str, str], options: LogFormatOptions, sides: frozenset[str] | None = None
) -> ParsedLine | None:
    """The line of these numbers, as texts by name; ``None`` where they say nothing that is known.

    ``sides``: the names of values of an evaluation; by default those that say so."""
    places: dict[str, tuple[str, str]] = {}
    values: dict[str, float] = {}
    for name, text in given.items():
        kind = kind_of(name)
        number = None if kind else number_of(text)
        if kind and (kind not in places or "global" in name.lower()):
            places[kind] = (name, text)
        elif number is not None:
            values[name] = number
    if sides is None:
        sides = frozenset(name for name in values if describe(name).evaluated)
    evaluated = {name: values.pop(name) for name in list(values) if name in sides}
    evaluated = {
        name: evaluated[name] for name in evaluated if describe(name).is_metric or not values
    }
    is_own = options.loss_metric in values or options.loss_metric in evaluated
    if not is_own and not any(describe(name).is_metric for name in values):
        return _evaluation(evaluated, places)
    parsed = _at(places, options)
    parsed.evaluated, parsed.evaluated_epoch = evaluated, parsed.epoch
    if options.loss_metric in evaluated:  # a user may name one of an evaluation
        values |= evaluated
    return parsed.with_values(values, options.loss_metric)


def _evaluation(
    values: Mapping[str, float], places: Mapping[str, tuple[str, str]]
) -> ParsedLine | None:
    values = {name: value for name, value in values.items() if describe(name).is_metric}
    if not values:
        return None
    epoch = _whole(places.get("epoch", ("", ""))[1])
    return ParsedLine(evaluated=values, evaluated_epoch=epoch, epoch_as_printed=True)


def _at(places: Mapping[str, tuple[str, str]], options: LogFormatOptions) -> ParsedLine:
    whole = {kind: _whole(text) for kind, (_, text) in places.items()}
    text = places.get("epoch", ("", ""))[1]
    done = _done(text)
    epoch = whole.get("epoch") if done is None else None
    step = whole.get("step")
    count = step if step is not None else whole.get("iteration")
    name = places["step"][0].lower() if step is not None else ""
    is_firm = any(word in name for word in _FIRM)
    within = whole.get("batch") if step is None else None
    if epoch is not None and step is None and within is None:
        within = whole.get("iteration")
    is_placed = any(kind in places for kind in ("step", "iteration", "batch"))
    ends = epoch is not None and not is_placed
    parsed = ParsedLine(
        epoch=epoch,
        epoch_as_printed=True,
        batch=within if epoch is not None else None,
        step=None if within is not None and epoch is not None else count,
        is_loose=epoch is not None and not is_firm and "batch" not in places,
        epoch_ended=ends,
        end_is_doubtful=ends,
        samples_per_second=number_of(places["speed"][1]) if "speed" in places else None,
        declared=_declared(whole.get("epochs"), whole.get("steps")),
    )
    if done is not None:
        parsed.at_epochs_done(done, options.steps_per_epoch)
    if (saved := whole.get("checkpoint")) and parsed.step is not None:
        parsed.saved = SavedCheckpoint(step=saved)
    return parsed


def _declared(epochs: int | None, steps: int | None) -> Declared | None:
    return Declared(epochs=epochs, steps=steps) if epochs or steps else None


def _done(text: str) -> float | None:
    """The epochs that are done, where the text of an epoch says so."""
    if not ("." in text or "e" in text or "E" in text):
        return None
    number = number_of(text)
    return number if number is not None and 0 <= number < 1e9 else None


def _whole(text: str) -> int | None:
    number = number_of(text) if text else None
    is_whole = number is not None and 0 <= number < _MOST and number.is_integer()
    return int(number) if number is not None and is_whole else None
