"""Paths and ports in texts: what a container's own file system and network would have given it.

There is no mount namespace, so a path at or under a `mountPath` is turned into the local folder of
that volume. There is one network namespace for all pods, so each declared port is turned into a
port of its own. Both are done on texts (arguments, variables, text files of config maps) by
patterns that are narrow on purpose: a number alone, in a place that does not look like a port,
stays what it is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import PurePosixPath

# A path starts a text or follows something that cannot be part of a longer path.
_PATH_START = r"(?:(?<![\w.\-/~])|(?<=file://))"
_PATH_END = r"(?=/|$|[^\w.\-])"
_HOSTS = r"(?:127\.0\.0\.1|localhost|0\.0\.0\.0|\[::1?\])"


@dataclass(frozen=True)
class Rewriting:
    """Replaces in one container's texts mount paths by folders and declared by local ports."""

    folders: Mapping[str, str] = field(default_factory=dict)
    ports: Mapping[int, int] = field(default_factory=dict)

    def argument(self, text: str) -> str:
        """Rewrite an argument: paths, addresses, and flags that end in a port."""
        return self._flags(self._addresses(self.path(text)))

    def arguments(self, texts: list[str]) -> list[str]:
        """Rewrite a command line, including a declared port that is an argument of its own."""
        return [self._whole(self.argument(each)) for each in texts]

    def variable(self, name: str, value: str) -> str:
        """Rewrite a variable's value; the bare number in a variable named ...PORT is a port."""
        if re.search(r"(?:^|_)PORT$", name):
            value = self._whole(value)
        return self.argument(value)

    def file(self, text: str) -> str:
        """Rewrite a text file: paths and addresses on this host."""
        return self._addresses(self.path(text))

    def path(self, text: str) -> str:
        """Replace every path at or under a mount path by the folder that stands for it."""
        if self._paths is None:
            return text
        return self._paths.sub(lambda match: self._folders[match.group(0)], text)

    def port(self, number: int) -> int:
        """Return the local port of a declared port; any other number is its own."""
        return self.ports.get(number, number)

    @cached_property
    def _folders(self) -> dict[str, str]:
        return {
            str(PurePosixPath(path)): folder for path, folder in self.folders.items() if path != "/"
        }

    @cached_property
    def _paths(self) -> re.Pattern[str] | None:
        longest_first = sorted(self._folders, key=len, reverse=True)
        if not longest_first:
            return None
        return re.compile(f"{_PATH_START}(?:{'|'.join(map(re.escape, longest_first))}){_PATH_END}")

    @cached_property
    def _numbers(self) -> str:
        return "|".join(str(each) for each in sorted(self.ports, reverse=True))

    def _local(self, match: re.Match[str]) -> str:
        return match.group(1) + str(self.ports[int(match.group(2))])

    def _addresses(self, text: str) -> str:
        if not self.ports:
            return text
        return re.sub(rf"((?:^|(?<![\w.])){_HOSTS}:)({self._numbers})(?![\w.])", self._local, text)

    def _flags(self, text: str) -> str:
        """Rewrite words that end in `=PORT` or `:PORT`, and `--...port PORT` inside a script."""
        if not self.ports:
            return text
        text = re.sub(rf"((?<![\d]):|=)({self._numbers})(?=$|[\s\"';,&|)])", self._local, text)
        return re.sub(
            rf"(?i)((?:port|bind|listen)\s+)({self._numbers})(?![\w.:])", self._local, text
        )

    def _whole(self, text: str) -> str:
        return str(self.port(int(text))) if re.fullmatch(r"\d{1,5}", text) else text
