"""Logging of both processes: one line for each message, whatever is in it.

Messages quote names, annotations and fields that anybody who may submit a job can write: what is in
them must not look like another line, nor command a terminal."""

import logging
from typing import Final

_FORM: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
_LONGEST_MESSAGE: Final = 4096


def escaped(text: str, kept: str = "") -> str:
    """The text with all control characters escaped but those that are kept."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in kept else ascii(c)[1:-1] for c in text)


class LineFormatter(logging.Formatter):
    """Escapes control characters of messages; the lines of a traceback are indented."""

    def __init__(self) -> None:
        super().__init__(_FORM)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """The line of a message."""
        record.message = escaped(record.message[:_LONGEST_MESSAGE])
        return super().formatMessage(record)

    def formatException(self, ei: object) -> str:  # noqa: N802
        """A traceback, whose last lines are the exception's own text."""
        text = super().formatException(ei)  # type: ignore[arg-type]
        return "\n".join(f"  {line}" for line in escaped(text, "\n").split("\n"))


def log_to_stderr(level: str) -> None:
    """Write messages of this level and above to standard error."""
    handler = logging.StreamHandler()
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler])
