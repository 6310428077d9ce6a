"""Finding a configuration, and the token file; what goes over the wire is tested in
tests/integration/kube."""

from pathlib import Path

import pytest
import trustme
from kubernetes import client as api

from optimus.kube.client import TokenFile, connect, path_of
from optimus.kube.errors import ErrorKind, KubeError
from tests.cases import cases

USER = (
    "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: "
    "k, user: u}}]\n"
)
CLUSTERS = 'clusters: [{name: k, cluster: {server: "http://127.0.0.1:1"}}]\n'


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration of whoever runs the tests is found."""
    monkeypatch.setenv("HOME", str(tmp_path / "nobody"))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)


@cases(
    "text",
    {
        "no such file": None,
        "an empty file": "",
        "a list": "[1, 2]",
        "no YAML": "{",
        "a context without its cluster": USER,
        "users that are none": USER + CLUSTERS + "users: 7\n",
        "a cluster that is none": USER + "clusters: [7]\nusers: [{name: u, user: {}}]\n",
    },
)
def test_a_kubeconfig_that_cannot_be_used_is_a_sentence(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    if text is not None:
        path.write_text(text)
    with pytest.raises(
        KubeError, match=r"no (usable cluster configuration in|kubeconfig file) .*kubeconfig"
    ) as raised:
        connect(path, user_agent="test")
    assert raised.value.kind is ErrorKind.INVALID


@pytest.fixture
def in_a_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    return tmp_path


def test_a_pod_is_its_service_account(in_a_pod: Path) -> None:
    (in_a_pod / "token").write_text("one\n")
    trustme.CA().cert_pem.write_to_path(in_a_pod / "ca.crt")
    client = connect(user_agent="test", service_account=in_a_pod)
    configuration = client.access.library().configuration
    assert configuration.host == "https://[fd00::1]:443"
    assert configuration.ssl_ca_cert == str(in_a_pod / "ca.crt")
    (in_a_pod / "token").write_text("second")
    assert configuration.auth_settings()["BearerToken"]["value"] == "Bearer second"
    client.close()


def test_a_pod_without_its_token_is_a_sentence(in_a_pod: Path) -> None:
    with pytest.raises(KubeError, match="Service token file does not exist"):
        connect(user_agent="test", service_account=in_a_pod)


def test_a_kubeconfig_named_in_the_environment_is_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "mine"
    path.write_text(USER + CLUSTERS + "users: [{name: u, user: {}}]\n")
    monkeypatch.setenv("KUBECONFIG", str(path))
    connect(user_agent="test").close()


def test_a_token_is_read_again_when_its_file_changes_and_kept_while_it_is_away(
    tmp_path: Path,
) -> None:
    path = tmp_path / "token"
    path.write_text("one\n")
    tokens = TokenFile(path)
    assert tokens.token() == "one"
    # As the kubelet does it: a new file in the place of the old one.
    (tmp_path / "new").write_text("two")
    (tmp_path / "new").replace(path)
    assert tokens.token() == "two"
    path.unlink()
    assert tokens.token() == "two"
    path.write_text("")
    assert tokens.token() == "two"
    configuration = api.Configuration()
    tokens.refresh(configuration)
    assert configuration.api_key == {"BearerToken": "Bearer two"}


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        (("", "v1", "pods"), "/api/v1/pods"),
        (("", "v1", "pods", "ns"), "/api/v1/namespaces/ns/pods"),
        (("kubeflow.org", "v1", "tfjobs", "ns"), "/apis/kubeflow.org/v1/namespaces/ns/tfjobs"),
        (("g", "v1", "things", "a?b"), "/apis/g/v1/namespaces/a%3Fb/things"),
    ],
)
def test_paths(arguments: tuple[str, ...], path: str) -> None:
    assert path_of(*arguments) == path


@pytest.mark.parametrize("name", ["a/b", "..", ".", "a%2Fb"])
def test_no_name_leads_out_of_its_path(name: str) -> None:
    with pytest.raises(KubeError, match="cannot be the name of an object"):
        path_of("g", "v1", "things", name)
