"""A kubeconfig for the API server double."""

from pathlib import Path

import pytest
from pytest_httpserver import HTTPServer

from localcluster.kubeconfig import write_kubeconfig


@pytest.fixture
def kubeconfig(httpserver: HTTPServer, tmp_path: Path) -> Path:
    """The file that names the double."""
    path = tmp_path / "kubeconfig"
    write_kubeconfig(path, httpserver.url_for("").rstrip("/"), "", {})
    return path
