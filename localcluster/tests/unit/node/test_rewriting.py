"""Paths and ports in texts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.rewriting import Rewriting

REWRITING = Rewriting(
    {
        "/data": "/L/d",
        "/data/sub": "/L/s",
        "/var/run/secrets/x": "/L/x",
        "/etc/app.conf": "/L/app.conf",
    },
    {8080: 40080, 80: 40000},
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("/data", "/L/d", id="a mount path"),
        pytest.param("/data/a/b", "/L/d/a/b", id="a path under it"),
        pytest.param("/data/sub/b", "/L/s/b", id="the longest mount path wins"),
        pytest.param("/data/subway", "/L/d/subway", id="only at a path's border"),
        pytest.param("--dir=/data", "--dir=/L/d", id="in a flag"),
        pytest.param("cp /data/a /data/b", "cp /L/d/a /L/d/b", id="several in a script"),
        pytest.param("PATH=/usr/bin:/data/bin", "PATH=/usr/bin:/L/d/bin", id="in a search path"),
        pytest.param("file:///data/x", "file:///L/d/x", id="in a file URL"),
        pytest.param("'/data'; \"/data\"", "'/L/d'; \"/L/d\"", id="in quotes"),
        pytest.param("/database", "/database", id="not the start of a longer name"),
        pytest.param("/data.txt", "/data.txt", id="not with another ending"),
        pytest.param("/data-old/x", "/data-old/x", id="nor with a dash"),
        pytest.param("/mnt/data/x", "/mnt/data/x", id="not inside another path"),
        pytest.param("http://host/data/x", "http://host/data/x", id="not the path of a URL"),
        pytest.param("./data/x", "./data/x", id="not a relative path"),
        pytest.param("/var/run/secrets/x/token", "/L/x/token", id="the token of a service account"),
        pytest.param("/etc/app.conf", "/L/app.conf", id="a single file"),
    ],
)
def test_paths(text: str, expected: str) -> None:
    assert REWRITING.path(text) == expected
    assert REWRITING.argument(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("127.0.0.1:8080", "127.0.0.1:40080", id="an address"),
        pytest.param("http://localhost:8080/x", "http://localhost:40080/x", id="a URL"),
        pytest.param("0.0.0.0:80", "0.0.0.0:40000", id="all interfaces"),
        pytest.param(":8080", ":40080", id="only a port"),
        pytest.param("--port=8080", "--port=40080", id="a flag that ends in a port"),
        pytest.param(
            "--bind=0.0.0.0:8080", "--bind=0.0.0.0:40080", id="a flag that ends in an address"
        ),
        pytest.param(
            "exec prog --port=8080 --x", "exec prog --port=40080 --x", id="inside a script"
        ),
        pytest.param(
            "prog --port 8080 && y",
            "prog --port 40080 && y",
            id="after the flag's name in a script",
        ),
        pytest.param("--steps=80801", "--steps=80801", id="not a longer number"),
        pytest.param("127.0.0.1:80800", "127.0.0.1:80800", id="not a longer port"),
        pytest.param("example.org:8080/x", "example.org:8080/x", id="not another host's"),
        pytest.param("12:80:00", "12:80:00", id="not a time of day"),
        pytest.param("--batch=80.5", "--batch=80.5", id="not a fraction"),
    ],
)
def test_ports(text: str, expected: str) -> None:
    assert REWRITING.argument(text) == expected


def test_a_declared_port_alone_is_a_port_as_an_argument_or_in_a_variable_named_so() -> None:
    assert REWRITING.arguments(["python", "-m", "http.server", "8080"])[-1] == "40080"
    assert REWRITING.variable("HTTP_PORT", "8080") == "40080"
    assert REWRITING.variable("COUNT", "8080") == "8080"
    assert REWRITING.variable("SUPPORT", "8080") == "8080"


def test_files_are_rewritten_by_paths_and_addresses_only() -> None:
    assert REWRITING.file("root: /data\nurl: http://127.0.0.1:80/\nlimit=80\n") == (
        "root: /L/d\nurl: http://127.0.0.1:40000/\nlimit=80\n"
    )


def test_any_other_port_is_its_own() -> None:
    assert (REWRITING.port(8080), REWRITING.port(8081)) == (40080, 8081)


@given(st.text())
def test_without_mounts_and_ports_nothing_changes(text: str) -> None:
    assert Rewriting().argument(text) == text


@given(
    st.lists(
        st.sampled_from(["/data", "/data/sub", "/x", " ", ":8080", "=80", "a", "/"]), max_size=8
    )
)
def test_rewriting_twice_changes_nothing_more(parts: list[str]) -> None:
    once = REWRITING.argument("".join(parts))
    assert REWRITING.argument(once) == once
