"""Lines as programs mean them: without what stands in front, one from several, several from one.

1. The prefix: time stamps, levels, names of loggers, processes and pods, as in
``2026-01-02 03:00:00,123 - trainer - INFO - ``, ``I0401 16:50:17.6 140 hooks.py:260] ``,
``[INFO|trainer.py:398] 2021-01-15 10:00:50,371 >> ``, ``[rank0]: ``, ``(pid=1) ``,
``[pod/a-worker-0/tensorflow] ``, of stern, compose, pdsh, containerd and docker. Parts are taken
off one by one from the front, in any order, until none is found. A part that names a process gives
the line's stream, since several processes may share one log."""

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from string import ascii_lowercase
from typing import Final, NamedTuple

from optimus.progress import value_table
from optimus.progress.parsed_line import MAX_CHARACTERS
from optimus.progress.pod_progress import PodState
from optimus.progress.printed_values import NUMBER

_MOST_PARTS: Final = 12
_LEVEL: Final = (
    r"(?:DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL|TRACE"
    r"|(?:[Dd]ebug|[Ii]nfo|[Ww]arning)(?=[\]:]))"
)
_CLOCK: Final = r"\d\d:\d\d:\d\d(?:[.,:]\d{1,9})?"
_DATE: Final = r"(?:\d{4}([-/.])\d\d\1\d\d|\d\d([-/.])\d\d(?:\2\d{2,4})?)"
_SOURCE: Final = (
    r"[\w./<>-]{1,80}\.(?:py|cc|cpp|cu|go|java|scala|R)[:(]\d{1,6}\)?(?::[\w<>]{1,60})?"
)
_KEPT: Final = (
    r"(?:train(?:ing|_inner)?|test(?:ing)?|val(?:id\w*)?|eval\w*|dev|epochs?|steps?|iter\w*|batch)"
    r"\b"
)
_PARTS: Final = (
    # Clocks.
    (
        rf"[\[(]?{_DATE}[T _,]\s?{_CLOCK}(?:\s?(?:[AP]M|Z|UTC|[+-]\d\d:?\d\d))?"
        r"(?:\s[a-z_][\w.]{0,63}(?=\]))?[\])]?"
        r"(?:\sstd(?:out|err)\s[FP]\s)?"
    ),
    (
        rf"\[?(?:[A-Z][a-z]{{2}}\s)?[A-Z][a-z]{{2}}\s[\s\d]\d\s{_CLOCK}(?:\s\d{{4}})?\]?"
        r"(?:\s[\w.-]{1,64}\s[\w./-]{1,64}\[\d{1,9}\]:)?"
    ),
    rf"[\[(]{_CLOCK}[\])]|{_CLOCK}(?=[\s|])",
    rf"\[\d{{4}}\s{_CLOCK}\s@[\w.]{{1,64}}:\d{{1,6}}\]",
    rf"\[[\w.:/-]{{1,64}}\](?=\s\[?\d{{4}}[-/.]\d\d[-/.]\d\d[T\s]{_CLOCK})",
    rf"\([\w.]{{1,64}}:\d{{1,6}}\)(?=\s{{1,4}}{_LEVEL})",
    r"\[[IWED]\s[\d-]{8,10}\s[\d:.,]{8,16}[^\]]{0,40}\]",
    r"\[\d\dd\d\dh\d\dm\d\ds\]",
    rf"[IWEF]\d{{4,8}}\s{_CLOCK}\s{{1,8}}\d{{1,20}}\s[^\s:]{{1,80}}:\d{{1,6}}\]",
    # Levels, loggers and sources.
    rf"{_LEVEL}:[\w.]{{1,64}}:(?:{_CLOCK}(?=\s))?",
    rf"\[{_LEVEL}\|[^\]]{{1,100}}\]",
    rf"[\[(<]?{_LEVEL}[\])>]?(?=[\s:|\[\-])",
    rf"[\[(]?{_SOURCE}[\])]?(?=[\s:|\->])",
    r"[\w.<>]{1,64}:[\w<>]{1,64}:\d{1,6}(?=\s[-|])",
    (
        rf"[\[(]?(?!{_KEPT})[A-Za-z_][\w.-]{{0,63}}[\])]?\s{{0,8}}[-|:]?\s{{0,8}}"
        rf"(?=[\[(<]?{_LEVEL}[\])>:|\s-])"
    ),
    rf"(?<=[-|]\s)(?!{_KEPT})[A-Za-z_][\w.]{{0,63}}(?=\s[-|]\s)",
    # Processes.
    r"(?P<rank>\[\d{1,6},\d{1,6}\]<std(?:out|err)>:)",
    (
        r"(?P<ranked>[\[(]?(?:[Rr]ank|RANK|default|local_rank|Worker|worker|GPU|gpu)[\s:=\[_-]?\d{1,6}\]?"
        r"[\])]?(?=[:,|]))"
    ),
    (
        r"(?P<bracket>[\[(](?:[Rr]ank|RANK|default|worker|Worker|local_rank|GPU|gpu|proc)"
        r"[\s:=_-]?\d{1,6}[\])])"
    ),
    r"(?P<pid>\((?:[\w.]{1,64}\s)?pid=\d{1,9}[^)]{0,80}\))",
    r"(?P<pod>\[pod/[^\]]{1,200}\])",
    (
        r"(?P<stern>[a-z0-9](?:[a-z0-9-]{0,80}-)(?:(?:worker|chief|master|ps|evaluator|launcher)"
        r"-\d{1,4}|(?=[a-z]*\d)[a-z0-9]{5})\s{1,4}[a-z][a-z0-9-]{1,40}(?=\s))"
    ),
    r"(?P<compose>[a-z][\w.-]{0,60}[-_]\d{1,4}\s{1,12}\|(?=\s))",
    r"(?P<arrow>\+\s[\w.-]{1,80}\s[›?]\s[\w.-]{1,60}(?=\s))",
    (
        rf"(?P<host>(?!{_KEPT})[a-z][\w.]{{0,40}}-[\w.-]{{0,40}}\d:"
        r"(?=\s{1,4}(?:[A-Za-z\[{('\"|=]|\d{1,9}[/:,;\t]))|\d{1,3}(?:\.\d{1,3}){3}:(?=\s)"
        r"|\d{1,4}:(?=\s{1,4}(?i:epoch|step|iter)))"
    ),
    r"\[(?:MainThread|MainProcess|Thread-\d{1,4}|__main__|root)\]",
    r">>+",
    rf"\d{{1,3}}(?:\.\d{{1,3}}){{3}}:\d{{1,5}}\s{{1,8}}\d{{1,9}}\s{{1,8}}[\w#.-]{{1,40}}(?=\s{{1,8}}{_LEVEL})",
    r"(?:time|ts)=\S{1,40}\slevel=\w{1,10}\smsg=\"?",
    rf"(?<=\s)\[(?!{_KEPT}|loss)[a-z_][\w.]{{0,63}}\](?=\s{{1,8}}[A-Za-z{{\[])",
)
_PART: Final = re.compile(rf"(?:{'|'.join(_PARTS)})\s{{0,8}}(?:[-|:,]\s{{1,8}}|:(?=\S))?")
_AS_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_STREAMS: Final = ("rank", "ranked", "bracket", "pid", "pod", "stern", "arrow", "compose", "host")
_WRAPPED: Final = ("log", "message", "msg")


class Body(NamedTuple):
    """A line without its prefix."""

    text: str
    stream: str = ""
    """The process that prints it, as the prefix names it, if it does."""


def split_prefix(text: str) -> Body:
    """A clean line without its prefix, and the process of which it is."""
    body = _split(text)
    if body.text[:1] == "{" and any(f'"{each}"' in body.text for each in _WRAPPED):
        inner = _split(_unwrapped(body.text))
        return Body(inner.text, body.stream + inner.stream)
    return body


def _split(text: str) -> Body:
    head = text[:200].encode("ascii", "replace").translate(_AS_ZEROS)
    end, streams = _extent(head.decode("ascii"))
    if not end:
        return Body(text)
    if text[-1:] == "|":
        # The borders of a name and its value are no part of the prefix.
        border = text.rfind("|", 0, text.rfind("|", 0, -1))
        end = border if 0 <= border < end else end
    return Body(text[end:], "".join([text[first:last] for first, last in streams]))


@lru_cache(maxsize=4096)
def _extent(text: str) -> tuple[int, tuple[tuple[int, int], ...]]:
    """Return where the prefix ends, and where in it the parts are that name a process.

    Cached, with zeros for all digits: the lines of a log differ in their numbers."""
    at = begin = len(text) - len(text.lstrip())
    streams: tuple[tuple[int, int], ...] = ()
    for _ in range(_MOST_PARTS):
        match = _PART.match(text, at)
        if match is None or match.end() == at:
            break
        if match.lastgroup in _STREAMS:
            streams = (*streams, match.span(match.lastgroup))
        at = match.end()
    return (at if at > begin else 0), streams


def _unwrapped(text: str) -> str:
    """The message of a record that docker or a logger writes as JSON."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return text
    found = [document.get(each) for each in _WRAPPED] if isinstance(document, dict) else []
    inner = next((each for each in found if isinstance(each, str) and each.strip()), text)
    return inner.rstrip("\n")


_OPENS: Final = re.compile(r"\{\s*(?:$|['\"])")
_OBJECT: Final = r"\{(?:[^{}\[\]]|\{[^{}\[\]]*+\})*+\}"
_RECORD: Final = re.compile(_OBJECT)
_RECORDS: Final = re.compile(rf"\[({_OBJECT}(?:\s{{0,8}},\s{{0,8}}{_OBJECT})*+)")
_POSITION: Final = re.compile(r"['\"](?:\w{0,16}(?:epoch|step)|iter(?:ation)?|round)s?['\"]\s?:")
_BORDERS: Final = ("|", "│", "┃", "║")
_CELL: Final = re.compile(
    rf"\s*+\|?(\s*+)([A-Za-z][\w ./@()%-]{{0,62}}?)(?:\s*\|\s*({NUMBER})|/\s*\|)\s*\|\s*"
)
"""``| loss | 0.5 |``, or the heading of a group: ``| train/ | |``."""
_PLAIN_TABLE: Final = re.compile(r"\s*Learning iteration (\d{1,15})/\d+\s*|-{3,}\s+-{3,}\s*")
_PLAIN_CELL: Final = re.compile(rf"\s*+([A-Za-z][\w ./-]{{0,62}}?)(?::\s|\s\s)\s*({NUMBER})\s*")
"""The tables of rsl_rl and garage, which have no borders."""
_GLUED: Final = re.compile(r"Epoch[ =:]{1,2}\d|(?<=\d)epoch=\d")
_BEFORE: Final = frozenset("0123456789%)]}" + ascii_lowercase)
_GOES_ON: Final = re.compile(r"\s{0,40}(?:['\"}\[\]]|[-\d.]+,?\s*$)|\s{1,40}\{")


def whole_lines(text: str) -> tuple[str, ...]:
    """The lines that a text is: where the end of one is lost, ``... loss: 0.5Epoch 2/10``."""
    at = text.find("poch", 2)
    while at >= 0:
        if text[at - 2] in _BEFORE and (match := _GLUED.match(text, at - 1)):
            return text[: match.start()], text[match.start() :]
        at = text.find("poch", at + 4)
    return (text,)


def records(text: str) -> Iterator[str]:
    """The lines that a list of records with positions is, each of a record; else the one line."""
    match = _RECORDS.search(text) if "[{" in text else None
    if match is None or _POSITION.search(match[1]) is None:
        yield text
        return
    before = text[: match.start()].partition("{")[0]
    for record in _RECORD.finditer(match[1]):
        yield before + record[0]


def joined(pod: PodState, body: Body) -> Body:
    """The line, with the lines before it that it goes on; ``pod.opened`` is what goes on below.

    A table that has a name and its value on each line is an object when it ends."""
    text = body.text
    if (match := _PLAIN_TABLE.fullmatch(text)) and (match[1] or pod.opened[:1] != ":"):
        pod.opened = f':{{"iteration": {match[1]}, ' if match[1] else ":{"
        return body
    if pod.opened[:1] == ":":
        return _in_plain_table(pod, body)
    if pod.opened[:1] == "|" or text.rstrip()[-1:] in _BORDERS:
        plain, opened = value_table.in_ascii(text), pod.opened if pod.opened[:1] == "|" else "|{"
        match = _CELL.fullmatch(plain)
        if match is not None and len(opened) < MAX_CHARACTERS:
            pod.opened = _with_cell(opened, match)
            return body
        pod.opened = pod.opened if pod.opened != opened else ""
        ends = opened != "|{" and (value_table.is_rule(plain) or not plain.strip())
        return Body(opened[1:] + "}" * opened.count("{"), body.stream) if ends else body
    if pod.opened:
        opened, pod.opened = pod.opened, ""
        if _GOES_ON.match(text) and len(opened) + len(text) < MAX_CHARACTERS:
            text = f"{opened} {text.strip()}"
    elif "{" not in text:
        return body
    match = _OPENS.search(text, 0, 200)
    if match is not None and text.count("{") > text.count("}") and len(text) < MAX_CHARACTERS:
        pod.opened = text
    return Body(text, body.stream)


def _in_plain_table(pod: PodState, body: Body) -> Body:
    """The line, or the table that it ends, as an object."""
    opened, text = pod.opened, body.text
    if (cell := _PLAIN_CELL.fullmatch(text)) and len(opened) < MAX_CHARACTERS:
        pod.opened += f'"{cell[1]}": {cell[2]}, '
        return body
    ends = text[:3] == "---" and value_table.is_rule(text)
    if ends or not opened.startswith(':{"iter') or len(opened) >= MAX_CHARACTERS:
        pod.opened = ""
    return Body(f"{opened[1:]}}}", body.stream) if ends else body


def _with_cell(opened: str, cell: re.Match[str]) -> str:
    indent, name, number = cell.groups()
    is_nested = opened.count("{") > opened.count("}") + 1
    if is_nested and (number is None or len(indent) < len("   ")):
        opened += "}, "
    return f'{opened}"{name}": {{' if number is None else f'{opened}"{name}": {number}, '
