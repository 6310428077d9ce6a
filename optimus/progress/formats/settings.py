"""Settings that programs print at the top of a run: arguments, numbers of steps and epochs.

``Namespace(batch_size=128, lr=0.1, lr_decay_epoch='100,150', num_epochs=200, ...)``, a dictionary
of arguments, the command line (``train.py --num-epochs 200 --lr-decay-epoch 100,150``), one setting
a line (``num_epochs: 200``), ``Total optimization steps = 1500``, ``training steps=800``, ``Num
Epochs = 3``. It gives the declared end of the run and the schedule of its learning rate."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from optimus.progress.parsed_line import LogFormatOptions, ParsedLine
from optimus.progress.types import NOTHING_DECLARED, Declared

MARKERS: Final = (
    "Namespace(",
    "pochs",
    "steps",
    "batch size",
    "batch_size",
    "milestones",
    "decay_epoch",
    " --",
)
_LIST: Final = r"\[[^\]'\"=]{0,200}\]|\([^)'\"=]{0,200}\)"
_ARGUMENT: Final = re.compile(
    r"""(?<![\w'"-])["']?([A-Za-z_][\w-]{0,40})["']?\s?[=:]\s?"""
    rf"""(?:'([^']{{0,200}})'|"([^"]{{0,200}})"|({_LIST}|[\w.+-]{{1,40}}))"""
)
_OPTION: Final = re.compile(
    r"(?:^|\s)--([A-Za-z][\w-]{0,40})(?:=|\s{1,4})"
    r"""(?:'([^']{0,200})'|"([^"]{0,200})"|([\w.][\w.,+-]{0,80}(?: \d[\w.,+-]{0,40}){0,20}))"""
)
_ONE_SETTING: Final = re.compile(r"[\s|>*-]{0,20}([A-Za-z]\w{1,40})\s{0,40}[=:|]\s{0,40}(.{1,200})")
_TOTAL: Final = re.compile(
    r"\b(?:(num(?:ber of)?|total|max(?:imum)?)[ _](?:training |train |optimi[sz]ation )?"
    r"|(?:train(?:ing)?|optimi[sz]ation) )(epochs|steps|iterations)\s?[=:]\s?"
    r"(\d{1,3}(?:,\d{3}){1,4}|\d{1,15})(?!,)"
    r"(?:\.0*)?s?\b",
    re.IGNORECASE,
)
_BATCH: Final = re.compile(
    r"(?<!effective )(?<!total )(?<!global )(?<!train )(?<!training )"
    r"\b(?:instantaneous batch size per (?:device|gpu)|(?:train(?:ing)? )?batch size)\s?[=:]\s?"
    r"(\d{1,9})\s*$",
    re.IGNORECASE,
)
_NAMES: Final = {
    what: tuple(names.split())
    for what, names in {
        "epochs": (
            "num_epochs epochs num_epoch max_epochs n_epochs num_train_epochs total_epochs "
            "train_epochs nb_epochs number_of_epochs"
        ),
        "steps": (
            "max_steps num_steps total_steps training_steps num_train_steps num_training_steps "
            "max_train_steps train_steps max_iter max_iters max_update num_iterations "
            "number_of_steps"
        ),
        "batch": "batch_size train_batch_size per_device_train_batch_size",
        "rate": "lr learning_rate base_lr",
        "mode": (
            "lr_mode lr_scheduler lr_schedule lr_scheduler_type lr_policy lr_decay sched scheduler"
        ),
        "drops": "lr_decay_epoch lr_step_epochs lr_steps milestones lr_decay_epochs",
        "period": "lr_decay_period scheduler_step_size lr_step_size",
        "factor": "lr_decay lr_factor lr_decay_factor gamma lr_gamma",
    }.items()
}
"""Names of arguments, by what they say; the first that is given holds."""
_SHAPES: Final = {
    name: shape
    for shape, names in (
        ("step", "step steplr multistep multisteplr"),
        ("cosine", "cosine cosineannealing cosineannealinglr warmupcosine cosinewarmup"),
        ("linear", "linear warmuplinear linearwarmup"),
        ("poly", "poly polynomial"),
        ("constant", "constant constantwithwarmup"),
        ("exponential", "exponential"),
    )
    for name in names.split()
}
"""Names of schedules, without dashes."""
_KNOWN: Final = frozenset(
    name for what in ("epochs", "steps", "batch", "drops", "period") for name in _NAMES[what]
)
_REAL: Final = re.compile(r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


def parse(text: str, _: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it declares nothing."""
    found = _arguments(text)
    declared = of_arguments(found) if found else _of_total(text)
    return None if declared is None else ParsedLine(declared=declared)


def _arguments(text: str) -> Mapping[str, str]:
    _, opened, rest = text.partition("Namespace(")
    if opened:
        return _by_name(_ARGUMENT, rest)
    if " --" in text:
        given = _by_name(_OPTION, text)
        return given if _KNOWN.intersection(given) else {}
    start = max(text.find("{'"), text.find('{"'))
    if start >= 0:
        return _by_name(_ARGUMENT, text[start:]) if "epochs" in text else {}
    return _one_setting(text)


def _by_name(pattern: re.Pattern[str], text: str) -> dict[str, str]:
    return {
        match[1].lower().replace("-", "_"): match[2] or match[3] or match[4] or ""
        for match in pattern.finditer(text)
    }


def _one_setting(text: str) -> Mapping[str, str]:
    """A line of one setting alone: ``num_epochs: 200``, ``| milestones | [30, 60] |``."""
    match = _ONE_SETTING.fullmatch(text)
    if match is None or match[1].lower() not in _KNOWN:
        return {}
    value = match[2].strip(" |\t'\"")
    return {match[1].lower(): value} if re.fullmatch(rf"{_LIST}|[\d., ]+", value) else {}


def _of_total(text: str) -> Declared | None:
    match = _TOTAL.search(text)
    if match is None:
        batch = _BATCH.search(text)
        return Declared(batch=int(batch[1])) if batch is not None and int(batch[1]) else None
    number = int(match[3].replace(",", ""))
    return Declared(epochs=number) if match[2].lower() == "epochs" else Declared(steps=number)


@lru_cache(maxsize=4096)
def of_command(command: str) -> Declared:
    """Return what the arguments of a command say of the run."""
    return of_arguments(_by_name(_OPTION, command)) or NOTHING_DECLARED


def of_arguments(given: Mapping[str, str]) -> Declared | None:
    """Return what arguments, by name with ``_`` for ``-``, say of the run, if anything."""
    mode = next((shape for name in _NAMES["mode"] if (shape := _shape(given.get(name, "")))), None)
    drops = next((given[name] for name in _NAMES["drops"] if given.get(name)), "")
    places = tuple(float(each) for each in re.findall(r"\d{1,9}(?:\.\d+)?", drops))
    epochs, period = _whole(given, _NAMES["epochs"]), _number(given, _NAMES["period"])
    if not places and period and epochs:
        places = tuple(period * n for n in range(1, int(min(epochs / period, 100)) + 1))
    is_step = mode in (None, "step") and bool(places)
    declared = Declared(
        epochs=epochs,
        steps=_whole(given, _NAMES["steps"]),
        batch=_whole(given, _NAMES["batch"]),
        learning_rate=_number(given, _NAMES["rate"]),
        schedule="step" if is_step else mode,
        drops=tuple(place for place in places if not epochs or place < epochs) if is_step else (),
        drop_factor=_number(given, _NAMES["factor"]) if is_step else None,
        warmup_epochs=_number(given, ("warmup_epochs",)),
        warmup_steps=_number(given, ("warmup_steps", "lr_warmup", "num_warmup_steps")),
        warmup_fraction=_number(given, ("warmup_ratio", "warmup_proportion")),
    )
    return None if declared == Declared() else declared


def _shape(name: str) -> str | None:
    return _SHAPES.get(name.lower().replace("_", "").replace("-", ""))


def _number(given: Mapping[str, str], names: tuple[str, ...]) -> float | None:
    texts = (given[name] for name in names if name in given)
    value = float(next((text for text in texts if _REAL.fullmatch(text)), 0))
    return value if 0 < value < 1e15 else None


def _whole(given: Mapping[str, str], names: tuple[str, ...]) -> int | None:
    value = _number(given, names)
    return int(value) if value is not None and value.is_integer() else None
