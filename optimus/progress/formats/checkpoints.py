"""Lines about checkpoints in anybody's words: what is saved, and whether the save is over.

``Saved checkpoint for step 100: ckpt/1``, ``=> saved checkpoint 'a.pth'``, ``Model weights saved in
out/pytorch_model.bin``, ``successfully saved checkpoint at iteration 1000``, ``[Torch] Saved
global_step100/mp_rank_00_model_states.pt.``. ``Saving ...`` says only that a save begins. The
checkpoint is of the step that the line names, else of the current position."""

import re
from typing import Final

from optimus.progress.parsed_line import LogFormatOptions, ParsedLine, SavedCheckpoint
from optimus.progress.printed_values import NUMBER

MARKERS: Final = ("sav", "Sav", "SAV", "wrote", "Wrote", "written")
_WHAT: Final = re.compile(
    r"check-?points?|ckpts?|\bmodels?\b|\bweights\b|\bparam(?:s|eters)\b|snapshots?|_states?\.pt|"
    r"\.(?:ckpt|pth?|pdparams|params|h5|keras|safetensors)\b",
    re.IGNORECASE,
)
_OVER: Final = re.compile(r"\b(?:saved|wrote|written|finished saving|done saving)\b", re.IGNORECASE)
_BEGINS: Final = re.compile(r"\bsav(?:ing|e)\b", re.IGNORECASE)
_NOT_YET: Final = re.compile(
    r"\b(?:will|would|should|to be|can|cannot|not|no|never|every|each|fail\w*|errors?|unable|"
    r"skip\w*|load\w*|restor\w*|resum\w*|last|previous\w*|init\w*|dir(?:ectory)?|tokenizer|config"
    r"|uration|before|listeners|every|interval|freq\w*|only|keep|max\w*)\b|[:=]\s?(?:true|false|none|null)\b|--",
    re.IGNORECASE,
)
_STEP: Final = re.compile(
    r"(?:\bstep|global_?step|\biteration|\biter)[\s:_=-]{0,3}(\d{1,15})(?![\d.]*\d)"
    r"|(?<![\d.])(\d{1,15}) (?:updates|steps|iterations)\b",
    re.IGNORECASE,
)
_HIGHER: Final = re.compile(rf"\b([A-Za-z]*mAP) ({NUMBER}) higher than")


def parse(text: str, _: LogFormatOptions) -> ParsedLine | None:
    """Parse one line without its prefix; ``None`` where no checkpoint is saved."""
    text = text[:400]
    is_over = _OVER.search(text) is not None
    if not (is_over or _BEGINS.search(text)) or not _WHAT.search(text) or _NOT_YET.search(text):
        return None
    match = _STEP.search(text)
    step = int(match[1] or match[2]) if match else None
    best = _HIGHER.search(text)
    return ParsedLine(
        saved=SavedCheckpoint(step=step, complete=is_over),
        evaluated={best[1]: float(best[2])} if best else {},
    )
