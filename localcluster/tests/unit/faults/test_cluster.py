"""etcd's address and certificates are read from the running API server's flags."""

import pytest

from localcluster.errors import ClusterError
from localcluster.faults.cluster import store_flags

_ALL = {
    "--etcd-servers": "https://127.0.0.1:2379",
    "--etcd-cafile": "/pki/etcd-ca.crt",
    "--etcd-certfile": "/pki/etcd-client.crt",
    "--etcd-keyfile": "/pki/etcd-client.key",
}


def _command_line(flags: dict[str, str]) -> bytes:
    words = [
        "/bin/kube-apiserver",
        "--allow-privileged",
        *(f"{flag}={value}" for flag, value in flags.items()),
        "",
    ]
    return "\0".join(words).encode()


def test_address_and_credentials_are_the_api_servers_own() -> None:
    shuffled = dict(reversed(_ALL.items()))
    assert store_flags(_command_line(shuffled)) == tuple(_ALL.values())


@pytest.mark.parametrize("flag", _ALL)
def test_a_flag_that_is_not_there_is_named(flag: str) -> None:
    others = {name: value for name, value in _ALL.items() if name != flag}
    with pytest.raises(ClusterError, match=f"without {flag}$"):
        store_flags(_command_line(others))
