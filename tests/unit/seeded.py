"""Cases of properties drawn by ``random.Random``, where drawing them by hypothesis takes longer
than trying them."""

from collections.abc import Callable
from random import Random
from typing import TypeVar

from hypothesis import note
from hypothesis import strategies as st

T = TypeVar("T")


@st.composite
def seeded(draw: st.DrawFn, generate: Callable[[Random], T]) -> T:
    """One case of ``generate``; a failing test shows the seed that it is made from again.

    Hypothesis draws the seed alone: about 30 times as cheap as a cluster that is drawn by it. It
    does not make a failing case smaller, so these cases are small to begin with.
    """
    seed = draw(st.integers(0, 2**64 - 1))
    note(f"the case is drawn by random.Random({seed})")
    return generate(Random(seed))
