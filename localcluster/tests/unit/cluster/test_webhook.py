"""What an operator with an admission webhook finds when it starts."""

import base64
import ssl
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from localcluster import components, webhook
from localcluster.binaries.locate import Binaries
from localcluster.bootstrap import served_kinds
from localcluster.components import Ports, Recipe
from localcluster.paths import ClusterPaths

SERVED = Path("k8s-webhook-server/serving-certs")


def hook(kind: str) -> dict[str, object]:
    return {
        "name": f"validator.{kind}",
        "clientConfig": {"service": {"name": "webhook-service", "path": f"/{kind}"}},
        "rules": [{"resources": [kind]}],
    }


@pytest.fixture
def manifests(tmp_path: Path) -> Path:
    """Those of an operator without MXJobs."""
    configuration = {"kind": "C", "webhooks": [hook("jaxjobs"), hook("tfjobs")]}
    files = {"crds/kubeflow.org_tfjobs.yaml": {}, "webhook/manifests.yaml": configuration}
    for name, body in files.items():
        (tmp_path / "manifests" / name).parent.mkdir(parents=True)
        (tmp_path / "manifests" / name).write_text(yaml.safe_dump(body))
    return tmp_path / "manifests"


def test_its_certificate_is_its_own_authority_and_that_of_its_service(tmp_path: Path) -> None:
    webhook.write_certificate(tmp_path)
    files = tmp_path / SERVED / "tls.crt", tmp_path / SERVED / "tls.key"
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*files)
    certificate = x509.load_pem_x509_certificate(files[0].read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert set(names.get_values_for_type(x509.DNSName)) == {
        "training-operator-ca",
        "training-operator.kubeflow.svc",
    }
    assert files[1].read_text().startswith("-----BEGIN RSA PRIVATE KEY-----")
    assert files[1].stat().st_mode & 0o077 == 0


def test_the_api_server_is_led_to_it_for_the_kinds_that_there_are(
    tmp_path: Path, manifests: Path
) -> None:
    webhook.write_certificate(tmp_path)
    secret, service, configuration = webhook.objects(manifests, tmp_path, 20007, ["tfjobs"])
    crt = base64.b64encode((tmp_path / SERVED / "tls.crt").read_bytes()).decode()
    assert secret["data"]["ca.crt"] == secret["data"]["tls.crt"] == crt
    assert service["spec"] == {"type": "ExternalName", "externalName": "localhost"}
    (only,) = configuration["webhooks"]
    assert only["clientConfig"]["service"] == {
        "name": "training-operator",
        "namespace": "kubeflow",
        "path": "/tfjobs",
        "port": 20007,
    }


def test_the_operator_is_told_its_kinds_its_port_and_its_folder(
    tmp_path: Path, manifests: Path
) -> None:
    paths = ClusterPaths(tmp_path)
    ports = Ports(20001, 20002, 20003, 20004, 20005, 20006, 20007)
    binaries = Binaries({"training-operator": Path("/programs/operator")}, manifests)
    operator = components.training_operator(Recipe(paths, binaries, ports))
    assert [kind.name for kind in served_kinds(manifests)] == ["TFJob"]
    assert [each for each in operator.command if "scheme" in each] == ["--enable-scheme=tfjob"]
    assert "--webhook-server-port=20007" in operator.command
    assert operator.environ["TMPDIR"] == str(paths.pki)


def test_the_file_that_it_waits_for_is_there_as_long_as_any_cluster_needs_it(
    tmp_path: Path,
) -> None:
    file = tmp_path / SERVED / "tls.crt"
    with webhook.announced(tmp_path / SERVED):
        with webhook.announced(tmp_path / SERVED):
            assert file.exists()
        assert file.exists(), "another cluster runs"
    assert list(tmp_path.iterdir()) == []


def test_a_file_of_somebody_else_stays(tmp_path: Path) -> None:
    file = tmp_path / SERVED / "tls.crt"
    file.parent.mkdir(parents=True)
    file.write_text("a certificate")
    with webhook.announced(tmp_path / SERVED):
        pass
    assert file.read_text() == "a certificate"
