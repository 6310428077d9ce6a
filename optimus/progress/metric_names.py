"""The meaning of a printed value's name: a loss, a part of one, a metric; which way it improves.

Programs name one thing in many ways: ``acc-top1``, ``heatmap_accuracy``, ``RCNNAcc``, ``valid
ppl``, ``training's binary_logloss``. A name is split into words; those that say over what a value
was taken (``train``, ``avg``, ``epoch``) are dropped, those of an evaluation (``val``, ``test``,
``dev``) are noted, and the rest is looked up. What is not known means nothing."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import Final

MAX_NAME_CHARACTERS: Final = 64
"""A longer name is not a metric's."""


class Meaning(Enum):
    """The kinds of values, as far as names say."""

    LOSS = auto()
    CROSS_ENTROPY = auto()
    LOG_LIKELIHOOD = auto()
    PART = auto()
    """One criterion of several, each of which has a name of its own (``RPN_SmoothL1``)."""
    NAMED_PART = auto()
    """One loss of several (``ObjLoss``, ``mlm_loss``); beside ``PART`` it is a metric's."""
    PERPLEXITY = auto()
    REGRESSION = auto()
    """The error of a regression, which is its criterion too: ``mse``, ``rmse``, ``mae``."""
    METRIC = auto()
    LEARNING_RATE = auto()
    OTHER = auto()


@dataclass(frozen=True, slots=True)
class ValueName:
    """The content of one name."""

    meaning: Meaning
    evaluated: bool = False
    """The value is of an evaluation, and not of the training."""
    rises: bool | None = None
    """True where better values are larger; ``None`` where the name does not say."""

    @property
    def is_metric(self) -> bool:
        """True for a loss or a metric, of the training or an evaluation."""
        return self.rises is not None or self.evaluated

    @property
    def is_beside(self) -> bool:
        """True for a value that may be a goal beside the training loss."""
        return self.evaluated or self.meaning in _BESIDE


_BESIDE: Final = (Meaning.METRIC, Meaning.PERPLEXITY, Meaning.REGRESSION)
EVALUATION_WORDS: Final = (
    "eval|evaluate|evaluation|evaluating|valid|validate|validation|validating|val|test|testing|dev"
)
_EVALUATION: Final = re.compile(rf"(?:{EVALUATION_WORDS}|holdout|heldout)")
_SCOPES: Final = re.compile(
    r"train(?:ing)?|trn|avg|average|mean|current|running|smoothed|moving|epoch|(?:mini)?batch|step|"
    r"iter|total|overall|global|reduced|mini|lm|s|the|of|for|one|in|at|learn|metrics?|per|token|"
    r"word|over|whole|this|main|sum"
)
_RISING: Final = re.compile(
    r".*acc(?:uracy)?\d*|top\d*|[mw]?ap(?:50|75)?|.*map(?:50|75)?|m?ious?|.*iou|(?:micro|macro)?f\d|"
    r"f1score|fscore|fmeasure|auc|.*auroc|auprc|roc|(?:sacre)?bleu\d*|rouge\w*|meteor|cider|spice|mcc|"
    r"precision|recall|em|match|success|pearson\w*|spearman\w*|corr(?:elation)?|r2|dice|psnr|ssim|ndcg\d*|mrr|"
    r"hits|score|(?:ep|average(?:(?:un)?discounted)?)?(?:re[wt]|rewards?|returns?)(?:mean)?|uas|las|pckh?|oks|delta|mota|idf1|cmc|rank1|kappa|specificity|"
    r"sensitivity"
)
_FALLING: Final = re.compile(
    r".*err(?:or)?|[wct]er|eer|rmsle|s?mape|bpc|bpb|bpd|epe|fid|rel|deviance|mre|nme|mpjpe|edit"
)
_REGRESSION: Final = re.compile(r"r?mse|mae")
_PERPLEXITY: Final = re.compile(r"ppl|perplexity|ppx")
_CRITERION: Final = re.compile(
    r".*crossentropy|ce|.*(?:smooth)?l[12]|.*focal|bce\w*|kld?|hinge|huber|ctc|conf|mask|objectness|"
    r"box|cls|obj|dfl|elbo|triplet"
)
_ENTROPY: Final = re.compile(r"(?:softmax)?crossentropy|xent|xentropy")
_GLUED: Final = re.compile(
    r"\b(train(?:ing)?|val(?:id(?:ation)?)?|test|eval|dev)(?=[A-Z][A-Za-z]|loss|acc|auc|err|ppl)"
)
"""``valLoss``, ``testacc``."""
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SPLIT: Final = re.compile(r"[^a-z0-9]+")
_LOOKED_UP: Final = (
    (_PERPLEXITY, Meaning.PERPLEXITY, False),
    (_FALLING, Meaning.METRIC, False),
    (_RISING, Meaning.METRIC, True),
)
_OTHER: Final = ValueName(Meaning.OTHER)


@lru_cache(maxsize=2048)
def describe(name: str) -> ValueName:
    """Return what a name says; names that are too long say nothing.

    Cached, since names are the same on every line of a log; bounded, as lines are."""
    if len(name) > MAX_NAME_CHARACTERS:
        return _OTHER
    name = _GLUED.sub(r"\1_", name)
    parts = _SPLIT.split(name.lower().replace("fb1", "f1"))  # conlleval's name
    words = [word for word in parts if word and not word.isdigit()]
    if words[:1] == ["l"] and len(words) > 1 and words[1] not in _NO_LOSS:
        words[0] = "loss"  # "l_pix", "l_g_gan", "l_total"
    evaluated = any(map(_EVALUATION.fullmatch, words))
    rest = [word for word in words if not (_SCOPES.fullmatch(word) or _EVALUATION.fullmatch(word))]
    if "best" in words or "time" in words or ("cost" in words and not _TIMED.isdisjoint(words)):
        return _OTHER
    if _is_about(words):
        return _OTHER
    if not rest:
        # "train=0.10 val=0.12": which metric it is, only its program knows.
        return ValueName(Meaning.METRIC if evaluated else Meaning.OTHER, evaluated)
    meaning, rises = _meaning(name, rest)
    return ValueName(meaning, evaluated and meaning is not Meaning.OTHER, rises)


def metrics_of(values: Mapping[str, float]) -> dict[str, float]:
    """Those of these values that are losses or metrics."""
    return {name: value for name, value in values.items() if describe(name).is_metric}


_NO_LOSS: Final = frozenset({"rate", "norm", "inf", "max", "min"})
_TIMED: Final = frozenset({"batch", "step", "iter", "iteration", "reader", "data", "io"})
"""A ``batch_cost`` counts seconds."""


_COMPARED: Final = re.compile(
    r"target|goal|desired|threshold|lowest|highest|min(?:imum)?|max(?:imum)?|initial|prev(?:ious)?|"
    r"baseline"
)
_ABOUT: Final = re.compile(
    r"improve(?:ment|d)|decrease|reduction|change|tol(?:erance)?|limit|weights?|scaler?|"
    r"coef(?:ficient)?|factor|patience"
)
"""These words behind a name make it a setting or a difference: ``loss_scale``."""


def _is_about(words: list[str]) -> bool:
    """Return whether a value is what another is compared with, or says something else about it."""
    behind = words[1:]
    if not behind:
        return False
    return _any(_COMPARED, words[:1]) or any(_any(each, behind) for each in (_COMPARED, _ABOUT))


_TRAINING: Final = re.compile(r"train(?:ing)?|trn")
_SYNONYMS: Final = {
    "acc": "accuracy",
    "ppl": "perplexity",
    "ppx": "perplexity",
    "err": "error",
    "ap": "map",
    "ap50": "map50",
    "ap75": "map75",
}


def is_of_training(name: str) -> bool:
    """Return whether a name says that the value is of the training."""
    return any(map(_TRAINING.fullmatch, _SPLIT.split(name.lower())))


def core_words(name: str) -> tuple[str, ...]:
    """The words that say which value it is, without those that say over what it was taken:
    ``Validation-accuracy``, ``val_acc`` and ``accuracy`` have the same."""
    words = [word for word in _SPLIT.split(name.lower()) if word]
    rest = [word for word in words if not (_SCOPES.fullmatch(word) or _EVALUATION.fullmatch(word))]
    return tuple([_SYNONYMS.get(word, word) for word in rest])


def _meaning(name: str, words: list[str]) -> tuple[Meaning, bool | None]:
    joined = "".join(words)
    if set(words) == {"loss"} or joined == "cost":
        return Meaning.LOSS, False
    if joined in ("lr", "learningrate") or (words[0] == "lr" and len(words) == 2):
        return Meaning.LEARNING_RATE, None
    for pattern, meaning, rises in _LOOKED_UP:
        if _any(pattern, words) and not (pattern is _PERPLEXITY and words[0].endswith("policy")):
            return meaning, rises
    if _REGRESSION.fullmatch(words[0]):
        return (Meaning.REGRESSION if len(words) == 1 else Meaning.METRIC), False
    if joined in ("exactmatch", "averageprecision"):
        return Meaning.METRIC, True
    return _entropy(joined) or _part(name, words)


def _entropy(joined: str) -> tuple[Meaning, bool] | None:
    if _ENTROPY.fullmatch(joined):
        return Meaning.CROSS_ENTROPY, False
    if joined in ("nllloss", "nll", "negativeloglikelihood"):
        return Meaning.LOG_LIKELIHOOD, False
    return None


def _part(name: str, words: list[str]) -> tuple[Meaning, bool | None]:
    if "loss" in words or words[-1].endswith("loss") or words[-1].endswith("losses"):
        return Meaning.NAMED_PART, False
    humps = [word.lower() for word in _HUMP.split(name)]
    if humps[0] == "loss":
        return Meaning.NAMED_PART, False  # "LossPi"
    criterion = _CRITERION.fullmatch(words[-1]) or _CRITERION.fullmatch(humps[-1])
    # A short word alone, such as "box" or "obj", may be anything.
    if criterion is not None and (len(words) > 1 or len(words[-1]) > 3):
        return Meaning.PART, False
    return Meaning.OTHER, None


def _any(pattern: re.Pattern[str], words: Iterable[str]) -> bool:
    return any(map(pattern.fullmatch, words))


@dataclass(frozen=True, slots=True)
class LossChoice:
    """The values of a line that make up the training loss."""

    rank: int
    """The lowest counts where lines differ."""
    names: tuple[str, ...]
    """The loss is their sum."""
    logarithm: bool = False
    """The loss is the logarithm: the perplexity is the exponential of the cross-entropy."""


_ORDER: Final = (Meaning.LOSS, Meaning.CROSS_ENTROPY, Meaning.LOG_LIKELIHOOD)


@dataclass(frozen=True, slots=True)
class LineNames:
    """The meaning that the names of all values on a line have together."""

    loss: LossChoice | None = None
    rate: tuple[str, ...] = ()
    """The learning rate, whichever is a number."""
    beside: tuple[tuple[str, ValueName], ...] = ()
    """The values that may be a goal beside the training loss."""
    has_metric: bool = False
    of_training: bool = False
    """A name says that its value is of the training."""


@lru_cache(maxsize=512)
def line_names(names: tuple[str, ...]) -> LineNames:
    """Return what a line's names say; a line of very many has no loss.

    Its training loss is ``loss``, where it has one. Else the sum of its parts; a cross-entropy or a
    negative log-likelihood is the loss where it is the only one. Else the logarithm of the
    perplexity, or the error of a regression. Never an accuracy, an error rate, or a value of an
    evaluation."""
    described = [(name, describe(name)) for name in names]
    has_metric = any(said.is_metric for _, said in described)
    of_training = any(map(is_of_training, names))
    if len(names) > _MOST_NAMES:
        return LineNames(has_metric=has_metric, of_training=of_training)
    return LineNames(
        _chosen(names),
        tuple(name for name, said in described if said.meaning is Meaning.LEARNING_RATE),
        tuple((name, said) for name, said in described if said.is_beside),
        has_metric,
        of_training,
    )


_MOST_NAMES: Final = 64


def _chosen(names: tuple[str, ...]) -> LossChoice | None:
    by_meaning: dict[Meaning, list[str]] = {}
    for name in names:
        found = describe(name)
        if not found.evaluated:
            by_meaning.setdefault(found.meaning, []).append(name)
    parts = by_meaning.get(Meaning.PART) or by_meaning.get(Meaning.NAMED_PART) or []
    entropies = by_meaning.get(Meaning.CROSS_ENTROPY, [])
    if parts and not by_meaning.get(Meaning.LOSS):
        whole = [name for name in parts if _is_whole(name, parts)]
        if whole:
            return LossChoice(0, (whole[0],))
        return LossChoice(len(_ORDER), tuple(name for name in names if name in parts + entropies))
    for rank, meaning in enumerate(_ORDER):
        if meaning in by_meaning:
            return LossChoice(rank, _plainest(by_meaning[meaning]))
    if Meaning.PERPLEXITY in by_meaning:
        # The same quantity as a cross-entropy, and of the same rank.
        return LossChoice(1, (by_meaning[Meaning.PERPLEXITY][0],), logarithm=True)
    if Meaning.REGRESSION in by_meaning:
        return LossChoice(len(_ORDER) + 1, _plainest(by_meaning[Meaning.REGRESSION]))
    return None


def _is_whole(name: str, parts: list[str]) -> bool:
    """Return whether all others are its parts: ``asr/loss_ctc`` of ``asr/loss``."""
    return len(parts) > 1 and all(each == name or each.startswith(f"{name}_") for each in parts)


def _plainest(names: list[str]) -> tuple[str, ...]:
    """The name without words such as ``train`` before those with them."""
    return (min(names, key=len),)
