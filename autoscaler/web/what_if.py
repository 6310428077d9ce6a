"""When a job would be done at other counts, as the page asks it."""

import threading
from typing import Final

import msgspec

from optimus.what_if import counts as other_counts
from optimus.what_if.counts import CountsQuestion, WhatIf
from optimus.what_if.text import counts_sentences

MOST_REPLICAS: Final = 10_000
_ONE_AT_A_TIME: Final = threading.Lock()
"""A placement on thousands of nodes takes a good part of a second of a core."""


class PageAnswer(msgspec.Struct, frozen=True):
    """An answer and its sentences."""

    answer: WhatIf
    sentences: list[str]


def answer(question: CountsQuestion) -> PageAnswer:
    """Return when the job would be done."""
    with _ONE_AT_A_TIME:
        answered = other_counts.answer(question)
    return PageAnswer(answered, list(counts_sentences(answered)))
