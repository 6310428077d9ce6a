"""Settings: one frozen dataclass gives flags, environment variables and help text.

Each field is a flag of the same name with dashes (``interval_seconds`` is ``--interval-seconds``)
and an environment variable behind the program's prefix (``OPTIMUS_INTERVAL_SECONDS``); a flag wins.
The docstring under a field is its help text, so that the code and ``--help`` cannot disagree. All
problems are reported in one message."""

import argparse
import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import Field, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Generic, TypeVar, get_args

Values = TypeVar("Values")

_ALMOST: Final = 0.8
"""How alike two names are of which one is taken for the other misspelt."""
_KEY: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


class SettingsError(ValueError):
    """What is wrong with the settings, one line per problem."""


@dataclass(frozen=True, slots=True)
class Program(Generic[Values]):
    """A program and its settings, a frozen dataclass of bool, int, float, str or optional Path, or
    of tuples of str: such a flag may be given several times, its variable has the texts one after
    the other with semicolons between them.

    ``contradictions`` gives a sentence for each value that is of the right type and wrong all the
    same."""

    name: str
    description: str
    settings: type[Values]
    environment_prefix: str
    contradictions: Callable[[Values], Iterable[str]]
    prefixes_of_others: tuple[str, ...] = ()
    """Those of other programs' variables, where they begin with this one's."""

    def parse(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Values:
        """The settings from the command line and the environment.

        Raises:
            SettingsError: naming every value that is wrong, and what would be right.
        """
        flags = {
            name: text
            for name, text in vars(self._parser().parse_args(arguments)).items()
            if text is not None
        }
        values: dict[str, Any] = {}
        problems = self._misspelt(environment)
        for field in self._fields:
            text = flags.get(
                field.name, environment.get(self.environment_prefix + field.name.upper())
            )
            if text is None:
                continue
            if field.type == tuple[str, ...]:
                values[field.name] = _texts(text)
                continue
            try:
                values[field.name] = _value(field, text)
            except ValueError as error:
                problems.append(f"{flag(field.name)} {text!r}: {error}")
        settings = self.settings(**values)
        problems += self.contradictions(settings)
        if problems:
            raise SettingsError("\n".join(problems))
        return settings

    def _misspelt(self, environment: Mapping[str, str]) -> list[str]:
        """Problems with variables that nobody reads and that resemble one that is read.

        Others are let pass: Kubernetes itself makes variables such as OPTIMUS_AUTOSCALER_PORT, of
        Services."""
        known = {
            _plain(field.name): self.environment_prefix + field.name.upper()
            for field in self._fields
        }
        problems = []
        for name in sorted(environment):
            rest = name.upper().removeprefix(self.environment_prefix)
            if name in known.values() or rest == name.upper():
                continue
            if name.startswith(self.prefixes_of_others):
                continue
            close = get_close_matches(_plain(rest), known, n=1, cutoff=_ALMOST)
            if close:
                problems.append(f"{name}: unknown setting; did you mean {known[close[0]]}?")
        return problems

    @property
    def _fields(self) -> tuple[Field[Any], ...]:
        return fields(self.settings)  # type: ignore[arg-type]  # a dataclass, which the type system cannot ask for

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog=self.name, description=self.description)
        sentences = _sentences(self.settings)
        for field in self._fields:
            default = (
                "" if field.default in (None, "", False, ()) else f" Default: {field.default}."
            )
            text = (sentences[field.name] + default).replace("%", "%%")
            if field.type is bool:
                parser.add_argument(
                    flag(field.name), nargs="?", const="true", help=text, metavar="true|false"
                )
            elif field.type == tuple[str, ...]:
                name = field.name.rsplit("_", 1)[-1].upper()
                parser.add_argument(flag(field.name), action="append", help=text, metavar=name)
            else:
                parser.add_argument(
                    flag(field.name), help=text, metavar=field.name.rsplit("_", 1)[-1].upper()
                )
        return parser


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def flag(field: str) -> str:
    """The flag of a field."""
    return "--" + field.replace("_", "-")


def _sentences(settings: type[object]) -> dict[str, str]:
    """The docstring under each field."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0]
    assert isinstance(tree, ast.ClassDef)
    return {
        statement.target.id: " ".join(str(following.value.value).split())
        for statement, following in zip(tree.body, tree.body[1:], strict=False)
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and isinstance(following, ast.Expr)
        and isinstance(following.value, ast.Constant)
    }


def _texts(given: str | Sequence[str]) -> tuple[str, ...]:
    written = given.split(";") if isinstance(given, str) else given
    return tuple(each.strip() for each in written if each.strip())


def _value(field: Field[Any], text: str) -> object:
    if field.type is bool:
        return _truth(text)
    if field.type is float:
        return _amount(float, text, "a number, 0 or more, is expected")
    if field.type is int:
        return _amount(int, text, "a whole number, 0 or more, is expected")
    return Path(text) if Path in get_args(field.type) else text


def _truth(text: str) -> bool:
    if text.lower() not in ("true", "1", "yes", "false", "0", "no"):
        raise ValueError("true or false is expected")
    return text.lower() in ("true", "1", "yes")


def _amount(kind: type[int] | type[float], text: str, expected: str) -> int | float:
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(expected) from None
    if not 0 <= value < float("inf"):
        raise ValueError(expected)
    return value


def address(text: str) -> tuple[str, int]:
    """Host and port of ADDRESS:PORT; an IPv6 address stands in brackets.

    Raises:
        ValueError: it is no such thing.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError("ADDRESS:PORT is expected")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check(good: object, name: str, text: str, expected: str) -> list[str]:
    """The problem of a field that should hold what is expected; none where it is good."""
    return [] if good else [f"{flag(name)} {text!r}: {expected} is expected"]


def not_an_address(name: str, text: str) -> list[str]:
    """The problem of a field that should hold ADDRESS:PORT; none where it does."""
    try:
        address(text)
    except ValueError as error:
        return [f"{flag(name)} {text!r}: {error}"]
    return []


def not_a_selector(name: str, text: str) -> list[str]:
    """The problem of a field that should hold a label selector by equality, or nothing."""
    good = not text or all(_is_requirement(part) for part in text.split(","))
    return check(good, name, text, "key=value,...")


def _is_requirement(text: str) -> bool:
    key, sign, value = text.partition("=")
    return bool(sign and _KEY.fullmatch(key) and _VALUE.fullmatch(value))


def not_resources(name: str, text: str) -> list[str]:
    """The problem of a field that should hold names of extended resources, or nothing."""
    good = all("/" in each and _KEY.fullmatch(each) for each in names_in(text))
    return check(good, name, text, "names such as example.com/memory, comma-separated")


def names_in(text: str) -> frozenset[str]:
    """The names in a field that holds them comma-separated."""
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


def not_a_label(name: str, text: str) -> list[str]:
    """The problem of a field that should hold a label's key, or nothing."""
    return check(not text or _KEY.fullmatch(text), name, text, "the key of a label")


def not_a_lease(name: str, text: str) -> list[str]:
    """The problem of a field that should hold the namespace and name of a Lease, or nothing."""
    good = not text or (text.count("/") == 1 and all(text.split("/")))
    return check(good, name, text, "NAMESPACE/NAME, or nothing,")


def not_a_version(name: str, text: str) -> list[str]:
    """The problem of a field that should hold a version of three numbers."""
    parts = text.split(".")
    good = len(parts) == 3 and all(part.isdigit() for part in parts)
    return check(good, name, text, "a version such as 1.8.1")


def not_one_of(name: str, text: str, choices: Sequence[str]) -> list[str]:
    """The problem of a field that should hold one of a few words."""
    return check(text in choices, name, text, f"{', '.join(choices[:-1])} or {choices[-1]}")


def not_positive(settings: object, *names: str) -> list[str]:
    """The problems of those of the fields that are 0."""
    return [
        f"{flag(name)}: more than 0 is expected" for name in names if getattr(settings, name) <= 0
    ]


LOG_LEVELS = ("debug", "info", "warning", "error")
