"""Regular expressions that users write: refused with a sentence where they cannot be used."""

import re
from typing import Final

MAX_PATTERN_CHARACTERS: Final = 300


def check_pattern(text: str, groups: int = 2) -> str | None:
    """Say in a sentence why a pattern cannot be used, or ``None`` where it can.

    ``groups`` are needed: 2 for a metrics format (name and value, in Katib's form), 0 for a checkpoint format, of
    which a first group, if there is one, is the step.
    """
    if len(text) > MAX_PATTERN_CHARACTERS:
        return f"the pattern has {len(text)} characters, at most {MAX_PATTERN_CHARACTERS} are taken"
    try:
        compiled = re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return f"{text!r} is no regular expression: {error}"
    if compiled.groups < groups:
        return f"{text!r} has {compiled.groups} groups; the first must be the name and the second the value"
    return None
