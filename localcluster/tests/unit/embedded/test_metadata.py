"""Keys and values of labels, in the real server's words."""

import pytest

from localcluster.embedded.apiserver.metadata import key_problems, value_problems


@pytest.mark.parametrize(
    ("key", "begins"),
    [
        pytest.param("app", [], id="a name"),
        pytest.param("optimus.dl/target-loss", [], id="a name with a prefix"),
        pytest.param("A_1.b", [], id="all that a name may have"),
        pytest.param(
            "", ["name part must be non-empty", "name part must consist of"], id="nothing"
        ),
        pytest.param(
            "a/", ["name part must be non-empty", "name part must consist of"], id="a prefix alone"
        ),
        pytest.param("/a", ["prefix part must be non-empty"], id="a slash too much"),
        pytest.param(
            "A_b/a",
            ["prefix part a lowercase RFC 1123 subdomain must"],
            id="a prefix that is no domain",
        ),
        pytest.param("a/b/c", ["a valid label key must consist of"], id="two prefixes"),
        pytest.param(
            "-" * 64,
            ["name part must be no more than 63 bytes", "name part must consist of"],
            id="two things wrong",
        ),
    ],
)
def test_keys(key: str, begins: list[str]) -> None:
    found = list(key_problems(key))
    assert len(found) == len(begins)
    assert all(said.startswith(begin) for said, begin in zip(found, begins, strict=True))


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        pytest.param("", 0, id="nothing"),
        pytest.param("v1.2_x", 0, id="all that a value may have"),
        pytest.param("-a", 1, id="a sign at the beginning"),
        pytest.param("a" * 64, 1, id="too long"),
        pytest.param("é", 1, id="a letter that is none of these"),
    ],
)
def test_values(value: str, problems: int) -> None:
    assert len(list(value_problems(value))) == problems
