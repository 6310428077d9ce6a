"""Paths and ports in texts."""

from hypothesis import given
from hypothesis import strategies as st

from localcluster.node.rewriting import Rewriting
from tests.cases import cases

REWRITING = Rewriting(
    {
        "/data": "/L/d",
        "/data/sub": "/L/s",
        "/var/run/secrets/x": "/L/x",
        "/etc/app.conf": "/L/app.conf",
    },
    {8080: 40080, 80: 40000},
)


@cases(
    ("text", "expected"),
    {
        "a mount path": ("/data", "/L/d"),
        "a path under it": ("/data/a/b", "/L/d/a/b"),
        "the longest mount path wins": ("/data/sub/b", "/L/s/b"),
        "only at a path's border": ("/data/subway", "/L/d/subway"),
        "in a flag": ("--dir=/data", "--dir=/L/d"),
        "several in a script": ("cp /data/a /data/b", "cp /L/d/a /L/d/b"),
        "in a search path": ("PATH=/usr/bin:/data/bin", "PATH=/usr/bin:/L/d/bin"),
        "in a file URL": ("file:///data/x", "file:///L/d/x"),
        "in quotes": ("'/data'; \"/data\"", "'/L/d'; \"/L/d\""),
        "not the start of a longer name": ("/database", "/database"),
        "not with another ending": ("/data.txt", "/data.txt"),
        "nor with a dash": ("/data-old/x", "/data-old/x"),
        "not inside another path": ("/mnt/data/x", "/mnt/data/x"),
        "not the path of a URL": ("http://host/data/x", "http://host/data/x"),
        "not a relative path": ("./data/x", "./data/x"),
        "the token of a service account": ("/var/run/secrets/x/token", "/L/x/token"),
        "a single file": ("/etc/app.conf", "/L/app.conf"),
    },
)
def test_paths(text: str, expected: str) -> None:
    assert REWRITING.path(text) == expected
    assert REWRITING.argument(text) == expected


@cases(
    ("text", "expected"),
    {
        "an address": ("127.0.0.1:8080", "127.0.0.1:40080"),
        "a URL": ("http://localhost:8080/x", "http://localhost:40080/x"),
        "all interfaces": ("0.0.0.0:80", "0.0.0.0:40000"),
        "only a port": (":8080", ":40080"),
        "a flag that ends in a port": ("--port=8080", "--port=40080"),
        "a flag that ends in an address": ("--bind=0.0.0.0:8080", "--bind=0.0.0.0:40080"),
        "inside a script": ("exec prog --port=8080 --x", "exec prog --port=40080 --x"),
        "after the flag's name in a script": ("prog --port 8080 && y", "prog --port 40080 && y"),
        "not a longer number": ("--steps=80801", "--steps=80801"),
        "not a longer port": ("127.0.0.1:80800", "127.0.0.1:80800"),
        "not another host's": ("example.org:8080/x", "example.org:8080/x"),
        "not a time of day": ("12:80:00", "12:80:00"),
        "not a fraction": ("--batch=80.5", "--batch=80.5"),
    },
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


@given(
    st.lists(
        st.sampled_from(["/data", "/data/sub", "/x", " ", ":8080", "=80", "a", "/"]), max_size=8
    )
)
def test_rewriting_twice_changes_nothing_more(parts: list[str]) -> None:
    once = REWRITING.argument("".join(parts))
    assert REWRITING.argument(once) == once
