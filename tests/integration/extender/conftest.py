"""A kubeconfig for the API server double."""

import json
from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer


@pytest.fixture
def kubeconfig(httpserver: HTTPServer, tmp_path: Path) -> Path:
    """The file that names the double."""
    path = tmp_path / "kubeconfig"
    path.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "clusters": [
                    {"name": "c", "cluster": {"server": httpserver.url_for("").rstrip("/")}}
                ],
                "users": [{"name": "u", "user": {}}],
                "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
                "current-context": "x",
            }
        )
    )
    return path
