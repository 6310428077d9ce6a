"""The command lines fit the files that are written, stay on loopback and share nothing that would
clash."""

import re
import tempfile
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from localcluster import components
from localcluster.binaries.locate import Binaries
from localcluster.binaries.modules import KUBERNETES, TRAINING_OPERATOR
from localcluster.client import api_client
from localcluster.components import Component, Ports, Recipe
from localcluster.identities import IDENTITIES, write_identities
from localcluster.paths import ClusterPaths

PORTS = Ports(20001, 20002, 20003, 20004, 20005, 20006, 20007)


@pytest.fixture(scope="module")
def paths(tmp_path_factory: pytest.TempPathFactory) -> ClusterPaths:
    """A state folder with all identities written."""
    paths = ClusterPaths(tmp_path_factory.mktemp("state"))
    write_identities(paths, PORTS.api)
    return paths


@pytest.fixture(scope="module")
def plane(paths: ClusterPaths) -> list[Component]:
    names = [*KUBERNETES.programs, *TRAINING_OPERATOR.programs]
    programs = {name: Path("/programs") / name for name in names}
    recipe = Recipe(paths, Binaries(programs, Path("/manifests")), PORTS)
    makers = (
        components.etcd,
        components.api_server,
        components.controller_manager,
        components.stock_scheduler,
        components.training_operator,
    )
    return [maker(recipe) for maker in makers] + [components.node_agent(paths)]


class TestCommandLines:
    def test_every_key_certificate_and_kubeconfig_they_name_was_written(
        self, plane: list[Component], paths: ClusterPaths
    ) -> None:
        words = [word for each in plane for word in (*each.command, *each.environ.values())]
        named = {
            path
            for word in words
            for path in re.findall(rf"{re.escape(str(paths.pki))}[^,=]*", word)
        }
        assert len(named) > 10
        assert [path for path in named if not Path(path).is_file()] == []

    def test_every_address_is_on_loopback(self, plane: list[Component]) -> None:
        text = " ".join(word for each in plane for word in each.command)
        addresses = re.findall(r"\d+\.\d+\.\d+\.\d+(?!\d*/)", text)
        assert addresses
        assert set(addresses) == {"127.0.0.1"}


class TestIdentities:
    @pytest.mark.parametrize("name", sorted(IDENTITIES))
    def test_a_certificate_names_its_user_and_group(self, paths: ClusterPaths, name: str) -> None:
        certificate = x509.load_pem_x509_certificate((paths.pki / f"{name}.crt").read_bytes())
        identity = IDENTITIES[name]
        users = [
            each.value for each in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        ]
        assert users == [identity.user]
        groups = [
            each.value
            for each in certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
        ]
        assert groups == [identity.group or "localcluster"]
        assert ("system:masters" in groups) == (name == "admin")

    def test_a_kubeconfig_points_to_this_cluster_and_its_files_from_wherever_it_is_read(
        self, paths: ClusterPaths
    ) -> None:
        body = yaml.safe_load(paths.kubeconfig.read_text())
        cluster, user = body["clusters"][0]["cluster"], body["users"][0]["user"]
        assert cluster["server"] == f"https://127.0.0.1:{PORTS.api}"
        files = {**user, "certificate-authority": cluster["certificate-authority"]}
        assert files == {
            "certificate-authority": str(paths.pki / "ca.crt"),
            "client-certificate": str(paths.pki / "admin.crt"),
            "client-key": str(paths.pki / "admin.key"),
        }
        assert all(Path(each).is_absolute() for each in files.values())

    def test_a_client_leaves_no_copy_of_a_key_where_it_is_killed(
        self, paths: ClusterPaths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The official client writes what a kubeconfig embeds to files, and removes them at its
        orderly end."""
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        with api_client(paths.kubeconfig) as client:
            assert client.configuration.key_file == str(paths.pki / "admin.key")
        assert list(tmp_path.iterdir()) == []

    def test_nobody_else_can_read_a_key(self, paths: ClusterPaths) -> None:
        secrets = [paths.kubeconfig, *paths.pki.glob("*.key"), *paths.pki.glob("*.kubeconfig")]
        assert len(secrets) > 8
        assert {path.stat().st_mode & 0o077 for path in secrets} == {0}
