"""The error answers of an API server, made up."""

import json
from collections.abc import Mapping
from typing import Final

_REASONS: Final[Mapping[int, str]] = {
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}


def status(code: int) -> dict[str, object]:
    """Return the Status object that goes with a code."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"an injected fault answers {code}",
        "reason": _REASONS.get(code, "Unknown"),
        "code": code,
    }


def error_event(code: int) -> bytes:
    """Return the line with which a watch tells of an error."""
    return json.dumps({"type": "ERROR", "object": status(code)}).encode() + b"\n"
