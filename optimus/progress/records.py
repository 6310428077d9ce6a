"""Objects that go on over several lines, put together to one: a dictionary as ``pprint`` prints it.

What is open is kept with the pod's state, at most a line's length; a line that cannot go on with it
ends it unread."""

import re
from string import ascii_lowercase
from typing import Final

from optimus.progress.parsed_line import MAX_CHARACTERS
from optimus.progress.pod_progress import PodState
from optimus.progress.prefixes import Body

_OPENS: Final = re.compile(r"\{\s*(?:$|['\"])")
_GLUED: Final = re.compile(r"Epoch[ =:]{1,2}\d|(?<=\d)epoch=\d")
_BEFORE: Final = frozenset("0123456789%)]}" + ascii_lowercase)
_GOES_ON: Final = re.compile(r"\s{0,40}(?:['\"}\[\]]|[-\d.]+,?\s*$)|\s{1,40}\{")


def parts(text: str) -> tuple[str, ...]:
    """The lines that a text is: where the end of one is lost, ``... loss: 0.5Epoch 2/10``."""
    at = text.find("poch", 2)
    while at >= 0:
        if text[at - 2] in _BEFORE and (found := _GLUED.match(text, at - 1)):
            return text[: found.start()], text[found.start() :]
        at = text.find("poch", at + 4)
    return (text,)


def joined(pod: PodState, body: Body) -> Body:
    """The line, with the lines before it that it goes on; ``pod.opened`` is what goes on below."""
    text = body.text
    if pod.opened:
        opened, pod.opened = pod.opened, ""
        if _GOES_ON.match(text) and len(opened) + len(text) < MAX_CHARACTERS:
            text = f"{opened} {text.strip()}"
    elif "{" not in text:
        return body
    found = _OPENS.search(text, 0, 200)
    if found is not None and text.count("{") > text.count("}") and len(text) < MAX_CHARACTERS:
        pod.opened = text
    return Body(text, body.stream)
