"""Pictures that come in a light and a dark form show the same, and show what was measured."""

import re
from xml.etree import ElementTree

import pytest

from tests.unit.docs.pages import ROOT, page

_IMAGES = ROOT / "docs" / "images"
_STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)


def test_the_light_and_the_dark_picture_differ_in_their_colours_alone() -> None:
    light, dark = ((_IMAGES / f"idea-{theme}.svg").read_text() for theme in ("light", "dark"))
    assert light != dark
    assert _STYLE.sub("", light) == _STYLE.sub("", dark)
    colour = re.compile(r"#[0-9a-f]{6}")
    assert colour.sub("", light) == colour.sub("", dark)


@pytest.mark.parametrize("path", sorted(_IMAGES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_can_be_read(path: object) -> None:
    assert ElementTree.parse(str(path)).getroot().tag.endswith("svg")


def test_the_speeds_in_the_picture_are_those_measured_of_the_light_example() -> None:
    rows = [
        row for row in page("examples/light/README.md").rows("Time of a step") if row[0].isdigit()
    ]
    measured = [speed for row in rows for speed in row[1:]]
    shown = re.findall(r">(\d\.\d\d)</text>", (_IMAGES / "idea-light.svg").read_text())
    assert shown == measured  # row by row, from 1 PS on
