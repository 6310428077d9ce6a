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


@pytest.mark.parametrize(
    ("name", "folders"),
    [("install", ["manifests/crds", "manifests"]), ("uninstall", ["manifests"])],
)
def test_rendered_files_are_up_to_date(name: str, folders: list[str]) -> None:
    rendered = by_place(objects((INSTALL / f"{name}.yaml").read_text()))
    expected = by_place([each for folder in folders for each in render(ROOT / folder)])
    assert rendered == expected, "run make install-yaml, and commit manifests/install"


def test_the_file_that_is_deleted_keeps_what_was_learned() -> None:
    """It lacks the CRDs, and nothing else, of the file that is applied."""
    applied, deleted = (
        by_place(objects((INSTALL / f"{name}.yaml").read_text()))
        for name in ("install", "uninstall")
    )
    assert {kind for kind, _, _ in applied.keys() - deleted.keys()} == {"CustomResourceDefinition"}
    assert deleted.items() <= applied.items()
