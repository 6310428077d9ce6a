"""Flags, environment and the messages about wrong values."""

from pathlib import Path

import pytest

from extender.http.wsgi import KeepAliveWorker, check_single, options
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
      nominate: false
      reservation-seconds: 7.5
      topology-labels: [topology.kubernetes.io/zone, rack]
    """
    path = given(tmp_path, text)
    settings = parse([], {"OPTIMUS_CONFIG": str(path)})
    assert settings == Settings(
        config=path,
        nominate=False,
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
      nominate: maybe
      reservation-seconds: 0
      topology-labels: [zone, a b]
      leader-identity: true
      access-log: "yes"
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
        "extender.nominate 'maybe': true or false is expected",
        "extender.leader-identity True: a text is expected",
        "extender.threads: unknown",
        "extender.reservation-seconds: more than 0 is expected",
        "--listen '8888': ADDRESS:PORT is expected",
        "extender.topology-labels 'a b': the key of a label is expected",
        "--health-listen 'host:99999': ADDRESS:PORT is expected",
        "--leader-lease 'a/b/c': NAMESPACE/NAME, or nothing, is expected",
        "--node-selector 'pool': key=value,... is expected",
        "--placement 'nowhere': pack, spread or theorem1 is expected",
        "extender.access-log 'yes': off, plain or json is expected",
        "--log-level 'loud': debug, info, warning or error is expected",
    ]


@pytest.mark.parametrize(
    "key",
    [
        "reservation-seconds",
        "binding-seconds",
        "rescale-hold-seconds",
        "age-limit-seconds",
        "cache-age-limit-seconds",
    ],
)
def test_what_has_to_be_more_than_nothing(tmp_path: Path, key: str) -> None:
    path = given(tmp_path, f"extender: {{{key}: 0}}")
    with pytest.raises(SettingsError, match=f"^extender.{key}: more than 0 is expected$"):
        parse([f"--config={path}"], {})


def test_the_operators_version_is_one_that_can_be_compared() -> None:
    with pytest.raises(SettingsError, match=r"^--operator-version 'newest': "):
        parse(["--operator-version=newest"], {})


def test_the_health_address_is_another_one() -> None:
    with pytest.raises(SettingsError, match="an address other than that of --listen is expected"):
        parse(["--listen=127.0.0.1:1", "--health-listen=127.0.0.1:1"], {})


def test_addresses() -> None:
    assert address("127.0.0.1:80") == ("127.0.0.1", 80)
    assert address("[::1]:80") == ("::1", 80)
    with pytest.raises(ValueError, match="ADDRESS:PORT"):
        address(":80")


def test_gunicorn_runs_one_worker_with_threads_whatever_the_environment_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("WEB_CONCURRENCY", "4")
    chosen = options(Settings(listen="127.0.0.1:1", health_listen="127.0.0.1:2"))
    assert (chosen["workers"], chosen["keepalive"]) == (1, 75)
    assert chosen["worker_class"] is KeepAliveWorker
    assert chosen["bind"] == "127.0.0.1:1"
    assert (
        options(Settings(listen="[fd00::1]:8888"))["bind"]
        == options(Settings(listen="fd00::1:8888"))["bind"]
        == "[fd00::1]:8888"
    )
    check_single(1, "KeepAliveWorker")
    for workers, kind in ((2, "KeepAliveWorker"), (1, "sync"), (1, "gthread")):
        with pytest.raises(SystemExit, match="one worker with threads is needed"):
            check_single(workers, kind)
