"""Settings: one frozen dataclass gives flags, environment variables, help text and a file.

A field is set in one of two ways. Fields of the dataclass itself are flags of the same name with
dashes (``interval_seconds`` is ``--interval-seconds``) and environment variables behind the
program's prefix (``OPTIMUS_INTERVAL_SECONDS``); a flag wins. Fields of its base class are values of
the file of ``--config``, in the program's section. The docstring under a field is its help text and
what the reference page says. All problems are reported in one message."""

import argparse
import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import Field, dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar, get_args

from optimus.runtime.settings_file import ALMOST, Sections, convert, key_of, read_sections, unknown

Values = TypeVar("Values")

SECTION: Final = "section"
"""The name in the metadata of a field that is a whole section of the file."""

_KEY: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?/)?[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
)
_VALUE: Final = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")


class SettingsError(ValueError):
    """The settings are wrong; one line per problem."""


class Problem(NamedTuple):
    """A wrong value of one field."""

    field: str
    """Empty: the sentence names what it is about."""

    sentence: str


@dataclass(frozen=True, slots=True)
class Program(Generic[Values]):
    """A program and its settings, a frozen dataclass with a base class.

    Fields of the dataclass itself are bool, int, float, str or optional Path, or tuples of str:
    such a flag may be given several times, and its variable has the texts with semicolons between
    them. One of them is ``config``, the file's path. Fields of the base class may also be mappings
    of names to numbers. ``contradictions`` gives the problems of values that are of the right type
    and wrong all the same."""

    name: str
    description: str
    settings: type[Values]
    environment_prefix: str
    contradictions: Callable[[Values], Iterable[Problem]]
    section: str
    """The section of the file with the values of the base class's fields."""

    prefixes_of_others: tuple[str, ...] = ()
    """The prefixes of other programs' variables, where they begin with this one's."""

    def parse(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Values:
        """The settings from the command line, the environment and the file.

        Raises:
            SettingsError: naming every value that is wrong, and what would be right.
        """
        values: dict[str, Any] = {}
        problems = [*self._misspelt(environment), *self._given(arguments, environment, values)]
        sections, wrong = read_sections(values.get("config"))
        problems += [*wrong, *self._from_file(sections, values)]
        settings = self.settings(**values)
        for field, sentence in self.contradictions(settings):
            problems.append(f"{self._label(field)}{sentence}" if field else sentence)
        if problems:
            raise SettingsError("\n".join(problems))
        return settings

    def _given(
        self,
        arguments: Sequence[str],
        environment: Mapping[str, str],
        values: dict[str, Any],
    ) -> Iterable[str]:
        """Take values from flags and variables; gives the problems of those that are wrong."""
        flags = vars(self._parser().parse_args(arguments))
        for field in flag_fields(self.settings):
            text = flags[field.name]
            if text is None:
                text = environment.get(self.environment_prefix + field.name.upper())
            if text is None:
                continue
            try:
                values[field.name] = _value(field, text)
            except ValueError as error:
                yield f"{flag(field.name)} {text!r}: {error}"

    def _from_file(self, sections: Sections, values: dict[str, Any]) -> Iterable[str]:
        """Take the values of the file; gives the problems of those that are wrong."""
        kinds = {key_of(field.name): field for field in file_fields(self.settings)}
        flags = {key_of(field.name) for field in flag_fields(self.settings)}
        for key, value in sections.get(self.section, {}).items():
            label = f"{self.section}.{key}"
            if key in flags:
                yield f"{label}: this is the flag --{key}, and no value of a file"
            elif key not in kinds:
                yield unknown(label, key, kinds)
            else:
                try:
                    values[kinds[key].name] = convert(kinds[key].type, value)
                except ValueError as error:
                    yield f"{label} {value!r}: {error}"
        for field in _whole_sections(self.settings):
            values[field.name] = sections.get(field.metadata[SECTION], {})

    def _label(self, field: str) -> str:
        """Return how users know a field."""
        own = {each.name for each in flag_fields(self.settings)}
        return flag(field) if field in own else f"{self.section}.{key_of(field)}"

    def _misspelt(self, environment: Mapping[str, str]) -> list[str]:
        """Problems with variables that nobody reads and that resemble one that is read.

        Others are let pass: Kubernetes itself makes variables such as OPTIMUS_AUTOSCALER_PORT, of
        Services."""
        variables = {
            _plain(field.name): self.environment_prefix + field.name.upper()
            for field in flag_fields(self.settings)
        }
        in_file = {
            _plain(field.name): f"{self.section}.{key_of(field.name)} in the file of --config"
            for field in file_fields(self.settings)
        }
        meant = variables | in_file
        problems = []
        for name in sorted(environment):
            rest = name.upper().removeprefix(self.environment_prefix)
            if name in variables.values() or rest == name.upper():
                continue
            if name.startswith(self.prefixes_of_others):
                continue
            close = get_close_matches(_plain(rest), meant, n=1, cutoff=ALMOST)
            if close:
                problems.append(f"{name}: unknown setting; did you mean {meant[close[0]]}?")
        return problems

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(prog=self.name, description=self.description)
        sentences = sentences_of(self.settings)
        for field in flag_fields(self.settings):
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


def flag_fields(settings: type[Any]) -> tuple[Field[Any], ...]:
    """The fields of a program's settings that are flags and environment variables."""
    in_file = {field.name for field in _base_fields(settings)}
    return tuple(field for field in fields(settings) if field.name not in in_file)


def file_fields(settings: type[Any]) -> tuple[Field[Any], ...]:
    """The fields of a program's settings that are values of its section of the file."""
    return tuple(field for field in _base_fields(settings) if SECTION not in field.metadata)


def _whole_sections(settings: type[Any]) -> tuple[Field[Any], ...]:
    return tuple(field for field in _base_fields(settings) if SECTION in field.metadata)


def _base_fields(settings: type[Any]) -> tuple[Field[Any], ...]:
    (base,) = settings.__bases__
    return fields(base)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def flag(field: str) -> str:
    """The flag of a field."""
    return "--" + field.replace("_", "-")


def sentences_of(settings: type[object]) -> dict[str, str]:
    """The docstring under each field, with those of base classes."""
    if settings is object:
        return {}
    tree = ast.parse(textwrap.dedent(inspect.getsource(settings))).body[0]
    assert isinstance(tree, ast.ClassDef)
    base = settings.__base__
    return (sentences_of(base) if base else {}) | {
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


def _value(field: Field[Any], text: Any) -> object:
    """A flag's or variable's text as a value; raises ValueError as ``convert`` does."""
    if field.type == tuple[str, ...]:
        return _texts(text)
    if Path in get_args(field.type):
        return Path(text)
    value = _TRUTHS.get(text.lower(), text) if field.type is bool else text
    if field.type in (int, float):
        with suppress(ValueError):
            value = field.type(text)
    return convert(field.type, value)


_TRUTHS: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def address(text: str) -> tuple[str, int]:
    """Host and port of ADDRESS:PORT; an IPv6 address stands in brackets.

    Raises:
        ValueError: it is no such thing.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise ValueError("ADDRESS:PORT is expected")
    return host.removeprefix("[").removesuffix("]"), int(port)


def check(good: object, name: str, value: object, expected: str) -> list[Problem]:
    """The problem of a field that should hold what is expected; none where it is good."""
    return [] if good else [Problem(name, f" {value!r}: {expected} is expected")]


def not_an_address(name: str, text: str) -> list[Problem]:
    """The problem of a field that should hold ADDRESS:PORT; none where it does."""
    try:
        address(text)
    except ValueError as error:
        return [Problem(name, f" {text!r}: {error}")]
    return []


def not_a_selector(name: str, text: str) -> list[Problem]:
    """The problem of a field that should hold a label selector by equality, or nothing."""
    good = not text or all(_is_requirement(part) for part in text.split(","))
    return check(good, name, text, "key=value,...")


def _is_requirement(text: str) -> bool:
    key, sign, value = text.partition("=")
    return bool(sign and _KEY.fullmatch(key) and _VALUE.fullmatch(value))


def not_resources(name: str, text: str) -> list[Problem]:
    """The problem of a field that should hold names of extended resources, or nothing."""
    good = all("/" in each and _KEY.fullmatch(each) for each in names_in(text))
    return check(good, name, text, "names such as example.com/memory, comma-separated")


def names_in(text: str) -> frozenset[str]:
    """The names in a field that holds them comma-separated."""
    return frozenset(filter(None, (name.strip() for name in text.split(","))))


def not_a_label(name: str, text: str) -> list[Problem]:
    """The problem of a field that should hold a label's key, or nothing."""
    return check(not text or _KEY.fullmatch(text), name, text, "the key of a label")


def not_a_lease(name: str, text: str) -> list[Problem]:
    """The problem of a field that should hold the namespace and name of a Lease, or nothing."""
    good = not text or (text.count("/") == 1 and all(text.split("/")))
    return check(good, name, text, "NAMESPACE/NAME, or nothing,")


def not_a_version(name: str, text: str) -> list[Problem]:
    """The problem of a field that should hold a version of three numbers."""
    parts = text.split(".")
    good = len(parts) == 3 and all(part.isdigit() for part in parts)
    return check(good, name, text, "a version such as 1.8.1")


def not_one_of(name: str, text: str, choices: Sequence[str]) -> list[Problem]:
    """The problem of a field that should hold one of a few words."""
    return check(text in choices, name, text, f"{', '.join(choices[:-1])} or {choices[-1]}")


def not_positive(settings: object, *names: str) -> list[Problem]:
    """The problems of those of the fields that are 0."""
    return [
        Problem(name, ": more than 0 is expected") for name in names if getattr(settings, name) <= 0
    ]


LOG_LEVELS = ("debug", "info", "warning", "error")
