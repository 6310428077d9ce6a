"""Chromium without a window, driven through the pipe of its own debugging protocol (CDP).

No further package is needed: the browser reads commands from file descriptor 3 and writes answers
to 4, each a JSON text that ends with a zero byte.
"""

import base64
import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "chrome")
_ARGUMENTS: Final = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--no-first-run",
    "--no-proxy-server",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
_SECONDS: Final = 60.0


def find_chromium() -> str | None:
    """The browser's program; ``None`` where none is installed."""
    found = (shutil.which(name) for name in _NAMES)
    return next((each for each in found if each), None)


class Browser:
    """One page of a browser. What it complains about is kept in ``complaints``."""

    def __init__(self, program: str, profile: Path) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        arguments = [program, *_ARGUMENTS, f"--user-data-dir={profile}", "about:blank"]
        # A shell's redirections put the pipes where the browser looks for them.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        self._process = subprocess.Popen(
            ["bash", "-c", script, "chromium", *arguments],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._buffer = b""
        self._number = 0
        self._session = ""
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        answer = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = answer["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: object) -> dict[str, Any]:
        """One command, and its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._note(answer)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            read = os.read(self._read, 1 << 20)
            if not read:
                raise RuntimeError("the browser has ended")
            self._buffer += read
        text, _, self._buffer = self._buffer.partition(b"\0")
        found: dict[str, Any] = json.loads(text)
        return found

    def _note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            details = parameters["exceptionDetails"]
            text = details.get("exception", {}).get("description", details["text"])
            self.complaints.append(text)
        elif event.get("method") == "Log.entryAdded":
            entry = parameters["entry"]
            if entry["level"] == "error":
                self.complaints.append(f"{entry['text']} {entry.get('url', '')}")
        elif event.get("method") == "Page.javascriptDialogOpening":
            self.complaints.append("a dialog was opened")

    def open(self, url: str) -> None:
        """Go to an address."""
        self.call("Page.navigate", url=url)

    def value(self, expression: str) -> Any:
        """What an expression is on the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def wait(self, expression: str, seconds: float = _SECONDS) -> Any:
        """Wait until an expression is true on the page; returns its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(RuntimeError):
                found = self.value(expression)
                if found:
                    return found
            time.sleep(0.02)
        shown = self.value("document.body.innerText.slice(0, 600)")
        raise AssertionError(f"{expression} did not become true: {shown} {self.complaints}")

    def look(self, width: int = 1360, height: int = 900, theme: str = "light") -> None:
        """Set the size of the window and the system's theme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        features = [{"name": "prefers-color-scheme", "value": theme}]
        self.call("Emulation.setEmulatedMedia", features=features)

    def press(self, key: str, code: str = "", number: int = 0) -> None:
        """Press and release a key."""
        known: dict[str, Any] = {"key": key, "code": code or key, "windowsVirtualKeyCode": number}
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **known, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **known)

    def screenshot(self, path: Path, *, whole: bool = False) -> None:
        """Save what is shown as a PNG; ``whole``: with what lies below the window."""
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(RuntimeError, OSError):
            self._session = ""
            self.call("Browser.close")
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._write)
        os.close(self._read)
