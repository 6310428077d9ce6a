"""Rounds of gradient boosting: XGBoost, LightGBM, CatBoost. A round is a step of the whole job.

``[10]\\ttrain-rmse:0.20\\teval-rmse:0.30``, ``[10]\\ttraining's binary_logloss: 0.5``,
``10:\\tlearn: 0.69\\ttest: 0.68\\tbest: 0.68 (9)\\ttotal: 50ms``. XGBoost and CatBoost count rounds
from 0, LightGBM from 1; the position may be one behind."""

import re
from typing import Final

from optimus.progress.metric_names import describe
from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, without_prefix
from optimus.progress.printed_values import printed_values

MARKERS: Final = ("]\t", "\tlearn: ")
_ROUND: Final = re.compile(r"^(?:\[\d\d:\d\d:\d\d\]\s)?(?:\[(\d{1,15})\]|(\d{1,15}):)\t(.*)")
_LEARN: Final = re.compile(r"\blearn: ")


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it is no round."""
    found = _ROUND.search(without_prefix(text))
    if found is None:
        return None
    rest = found[3]
    if found[2]:
        # CatBoost names the sides and not the metric, which is the loss function.
        rest = _LEARN.sub("loss: ", rest.partition("\tbest:")[0]).replace(
            "\ttest: ", "\ttest_loss: "
        )
    values, evaluated = printed_values(rest.replace("'s ", "_"))
    if not any(describe(name).is_metric for name in (*values, *evaluated)):
        return None
    parsed = ParsedLine(step=int(found[1] or found[2]), evaluated=evaluated)
    return parsed.with_values(values, options.loss_metric)
