"""The rendered files are what the kustomizations say."""

from typing import Any

import pytest
import yaml

from localcluster.embedded.kustomize import render
from tests.unit.docs.pages import ROOT

INSTALL = ROOT / "manifests" / "install"


def objects(text: str) -> list[dict[str, Any]]:
    return [each for each in yaml.safe_load_all(text) if each]


def by_place(bodies: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = {
        (each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each
        for each in bodies
    }
    assert len(found) == len(bodies)
    return found


@pytest.mark.parametrize(("name", "folder"), [("crds", "manifests/crds"), ("install", "manifests")])
def test_rendered_files_are_up_to_date(name: str, folder: str) -> None:
    rendered = by_place(objects((INSTALL / f"{name}.yaml").read_text()))
    expected = by_place(render(ROOT / folder))
    assert rendered == expected, "run make install-yaml, and commit manifests/install"


def test_deleting_the_installation_keeps_what_was_learned() -> None:
    kinds = {each["kind"] for each in objects((INSTALL / "install.yaml").read_text())}
    assert "CustomResourceDefinition" not in kinds
    crds = objects((INSTALL / "crds.yaml").read_text())
    assert [each["kind"] for each in crds] == ["CustomResourceDefinition"] * 2
