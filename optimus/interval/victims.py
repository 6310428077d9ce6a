"""Chooses the gangs that are paused for another one: in a given order, until a check says that it
fits."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def choose_victims(in_order: Sequence[T], fits: Callable[[Sequence[T]], bool]) -> list[T]:
    """The first of them that together make room, without those that are not needed; none where
    all together do not make it."""
    if not fits(in_order):
        return []
    chosen = list[T]()
    for each in in_order:
        if fits(chosen):
            break
        chosen.append(each)
    for each in chosen[-2::-1]:  # without the last there was no room
        fewer = [other for other in chosen if other is not each]
        if fits(fewer):
            chosen = fewer
    return chosen
