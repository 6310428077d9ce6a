"""Progress bars of tqdm and what is built on it: PyTorch Lightning, segmentation scripts.

``Epoch 3:  50%|#####     | 235/469 [00:05<00:05, 45.3it/s, loss=0.25, v_num=0]``,
``Epoch 0, training loss 1.234:  12%|#2  | 100/800 [01:23<09:41, 1.2it/s]``. Only the last state of
a bar that rewrites its line arrives. A bar without a loss or a metric is not of the training:
downloads have bars too. Values are running means, so the last of an epoch counts."""

import re
from typing import Final

from optimus.progress.metric_names import describe
from optimus.progress.parsed_line import (
    LogFormatOptions,
    ParsedLine,
    without_prefix,
)
from optimus.progress.printed_values import printed_values

MARKERS: Final = ("%|",)
_BAR: Final = re.compile(
    r"\b\d{1,3}%\|[^|]{0,400}\|\s{0,20}(\d{1,15})/(\d{1,15}) \[([^\]]{0,400})\]?"
)
_EPOCH: Final = re.compile(r"\bepoch[\s:#\[(]{0,4}(\d{1,9})\b", re.IGNORECASE)


def parse(text: str, options: LogFormatOptions) -> ParsedLine | None:
    """Parse one clean line; ``None`` where it is no bar of a training."""
    plain = without_prefix(text)
    found = _BAR.search(plain)
    if found is None:
        return None
    label, epoch = plain[: found.start()], _EPOCH.search(plain)
    values, evaluated = printed_values(f"{label} {found[3]} {plain[found.end() :]}")
    known = {name: value for name, value in evaluated.items() if describe(name).is_metric}
    if not any(describe(name).is_metric for name in values):
        number = int(epoch[1]) if epoch else None
        if not known:
            return None
        return ParsedLine(evaluated=known, evaluated_epoch=number, epoch_as_printed=True)
    batch, batches = int(found[1]), int(found[2])
    parsed = ParsedLine(
        epoch=int(epoch[1]) if epoch else None,
        epoch_as_printed=True,
        batch=batch,
        batches=batches,
        epoch_ended=batch == batches,
        cumulative=True,
        evaluated=known,
        evaluated_epoch=int(epoch[1]) if epoch else None,
    )
    return parsed.with_values(values, options.loss_metric)
