"""Flags, environment and the messages about wrong values."""

from pathlib import Path

import pytest

from extender.settings import Settings, parse
from optimus.runtime.settings import SettingsError, address


def test_flags_win_over_the_environment() -> None:
    environment = {
        "OPTIMUS_EXTENDER_LISTEN": "127.0.0.1:1",
        "OPTIMUS_EXTENDER_NODE_SELECTOR": "pool=a",
    }
    settings = parse(["--listen=[::1]:2", "--kubeconfig", "k"], environment)
    expected = Settings(listen="[::1]:2", kubeconfig=Path("k"), node_selector="pool=a")
    assert settings == expected


def given(folder: Path, text: str) -> Path:
    path = folder / "config.yaml"
    path.write_text(text)
    return path


def test_the_file_of_both_processes_has_a_section_for_the_extender(tmp_path: Path) -> None:
    text = """
    autoscaler: {unread: here}
    extender:
      one-kind: false
      reservation-seconds: 7.5
      topology-labels: [topology.kubernetes.io/zone, rack]
    """
    path = given(tmp_path, text)
    settings = parse([], {"OPTIMUS_CONFIG": str(path)})
    assert settings == Settings(
        config=path,
        one_kind=False,
        reservation_seconds=7.5,
        topology_labels=("topology.kubernetes.io/zone", "rack"),
    )


def test_what_both_processes_agree_on_is_read_from_the_autoscalers_variables() -> None:
    shared = {
        "OPTIMUS_SCHEDULER_NAME": "mine",
        "OPTIMUS_NODE_SELECTOR": "pool=a",
        "OPTIMUS_OPERATOR_VERSION": "1.9.3",
        "OPTIMUS_LEADER_LEASE": "the/autoscalers",
    }
    settings = parse([], shared)
    expected = Settings(
        scheduler_name="mine",
        node_selector="pool=a",
        operator_version="1.9.3",
        autoscaler_lease="the/autoscalers",
    )
    assert settings == expected
    own = shared | {"OPTIMUS_EXTENDER_NODE_SELECTOR": "pool=b"}
    assert parse([], own).node_selector == "pool=b"
    assert parse(["--node-selector=pool=c"], own).node_selector == "pool=c"


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    text = """
    extender:
      one-kind: maybe
      reservation-seconds: 0
      topology-labels: [zone, a b]
      leader-identity: true
      threads: 3
    """
    with pytest.raises(SettingsError) as caught:
        parse(
            [
                f"--config={given(tmp_path, text)}",
                "--listen=8888",
                "--health-listen=host:99999",
                "--leader-lease=a/b/c",
                "--node-selector=pool",
                "--placement=nowhere",
                "--log-level=loud",
            ],
            {},
        )
    lines = str(caught.value).splitlines()
    assert lines == [
        "extender.one-kind 'maybe': true or false is expected",
        "extender.leader-identity True: a text is expected",
        "extender.threads: unknown",
        "extender.reservation-seconds: more than 0 is expected",
        "--listen '8888': ADDRESS:PORT is expected",
        "extender.topology-labels 'a b': the key of a label is expected",
        "--health-listen 'host:99999': ADDRESS:PORT is expected",
        "--leader-lease 'a/b/c': NAMESPACE/NAME, or nothing, is expected",
        "--node-selector 'pool': key=value,... is expected",
        "--placement 'nowhere': pack, spread or theorem1 is expected",
        "--log-level 'loud': debug, info, warning or error is expected",
    ]


def test_addresses() -> None:
    assert address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert address("[::1]:80") == ("::1", 80)
    with pytest.raises(ValueError, match="ADDRESS:PORT"):
        address(":80")
