"""Named numbers as one line: the cells of a table's row, the content of an object.

Which name is a position's is decided here alone. An epoch with a decimal point (``0.32``, ``1.0``)
is how many are done, one without (``3``) is the number of the running one."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from optimus.progress.metric_names import describe, line_names, metrics_of
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, SavedCheckpoint, evaluation
from optimus.progress.printed_values import Place, number_of, whole_number

_FRONT: Final = re.compile(
    r"^(?:train(?:ing|er)?|current|cur|progress|data|metadata|server|comm(?:unication)?)_+(?=[a-z])"
)
_BACK: Final = re.compile(r"_(?:idx|index|id|no|num|number)$")
_KINDS: Final = {
    "epoch": "epoch epochs ep pass num_epoch",
    "step": "global_step global_steps step steps num_updates updates total_timesteps timesteps "
    "number_of_trees totalenvsteps",
    "iteration": "iteration iterations iter iters it round rounds",
    "batch": "batch batches minibatch",
    "epochs": "total_epochs num_epochs max_epochs n_epochs num_train_epochs",
    "steps": "total_steps max_steps num_steps total_iters max_iters",
    "checkpoint": "checkpoint checkpoint_step",
    "speed": "samples_per_sec samples_per_second examples/sec samples/sec",
}
_BY_NAME: Final = {name: kind for kind, names in _KINDS.items() for name in names.split()}
LABELS: Final = frozenset({"name", "key", "tag", "metric", "metric_name", "metricName", "scalar"})
VALUE_OF: Final = re.compile(r"(?:^|/)(?:metric_?)?(?:value|result)$", re.IGNORECASE)
_FIRM: Final = ("global", "num_updates", "timesteps", "envsteps")
_COUNTS: Final = frozenset({"step", "iteration", "batch"})


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
    given: Mapping[str, str],
    options: LogFormatOptions,
    sides: frozenset[str] | None = None,
    before: Callable[[], Place] = Place,
) -> ParsedLine | None:
    """The line of these numbers, as texts by name; ``None`` where they say nothing that is known.

    ``sides``: the names of values of an evaluation; by default those that say so. ``before``: the
    position in front of them, for a loss where none of them is one."""
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
        return _of_evaluation(metrics_of(evaluated), places)
    parsed = line_at(_at(places), options)
    if line_names(tuple(values)).loss is not None and not (parsed.trained or parsed.epoch):
        parsed = line_at(before(), options)
    if "speed" in places:
        parsed.samples_per_second = number_of(places["speed"][1])
    if (saved := whole_number(places.get("checkpoint", ("", ""))[1])) and parsed.step is not None:
        parsed.saved = SavedCheckpoint(step=saved)
    parsed.evaluated = evaluated
    if options.loss_metric in evaluated:  # a user may name one of an evaluation
        values |= evaluated
    return parsed.with_values(values, options.loss_metric)


def _of_evaluation(
    evaluated: Mapping[str, float], places: Mapping[str, tuple[str, str]]
) -> ParsedLine | None:
    parsed = evaluation(evaluated, whole_number(places.get("epoch", ("", ""))[1]))
    if parsed is not None and _is_firm(places):
        parsed.step = whole_number(places["step"][1])
    return parsed


def _is_firm(places: Mapping[str, tuple[str, str]]) -> bool:
    """Return whether these have a step that counts over the whole run."""
    name, number = places.get("step", ("", ""))
    return whole_number(number) is not None and any(word in name.lower() for word in _FIRM)


def _at(places: Mapping[str, tuple[str, str]]) -> Place:
    whole = {kind: whole_number(text) for kind, (_, text) in places.items()}
    place = Place(epochs=whole.get("epochs"), steps=whole.get("steps"), step=whole.get("step"))
    place.done = _done(places.get("epoch", ("", ""))[1])
    place.epoch = whole.get("epoch") if place.done is None else None
    place.loose = place.epoch is not None and not _is_firm(places) and "batch" not in places
    place.unclear = not _COUNTS.isdisjoint(places)
    if place.step is None and place.epoch is not None:
        within = whole.get("batch")
        place.batch = whole.get("iteration") if within is None else within
    if place.step is None and place.batch is None:
        place.step = whole.get("iteration")
    return place


def line_at(place: Place, options: LogFormatOptions) -> ParsedLine:
    """A line of this position; one of an epoch alone may end it."""
    ends = place.is_epoch and not place.unclear
    of_last = place.of_bar and place.batch is not None and place.batch == place.batches
    parsed = ParsedLine(
        epoch=place.epoch,
        epoch_as_printed=True,
        batch=place.batch,
        batches=place.batches,
        counts_steps=place.in_steps,
        percent=place.percent,
        step=place.step,
        is_loose=place.loose,
        epoch_ended=ends or of_last,
        end_is_doubtful=ends and not place.ended,
        cumulative=place.of_bar,
        evaluated_epoch=place.epoch,
        declared=place.declared,
    )
    if place.done is not None:
        parsed.at_epochs_done(place.done, options.steps_per_epoch)
    return parsed


def _done(text: str) -> float | None:
    """The epochs that are done, where the text of an epoch says so."""
    if not ("." in text or "e" in text or "E" in text):
        return None
    number = number_of(text)
    return number if number is not None and 0 <= number < 1e9 else None
