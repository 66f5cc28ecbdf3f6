"""Drives Debian's chromium, headless and without network, over the DevTools protocol through two pipes.

``--remote-debugging-pipe`` needs no port and no websocket: JSON messages, ended by a zero byte, on descriptors 3 and 4.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PATIENCE = 120.0
"""Seconds to wait for one answer, on a busy machine."""
_OPTIONS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-color-profile=srgb"),
    *("--disable-dev-shm-usage", "--no-first-run", "--disable-extensions", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--font-render-hinting=none", "--disable-lcd-text"),
    *("--host-resolver-rules=MAP * ~NOTFOUND", "--remote-debugging-pipe", "about:blank"),
)


def program() -> str | None:
    """Return the path of chromium; None if it is not installed."""
    return shutil.which("chromium")


class Browser:
    """One chromium with one page. ``messages``: what the page wrote on its console, and its errors, since `open`."""

    def __init__(self, profile: Path) -> None:
        found = program()
        assert found
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        # The shell puts the pipes where the browser looks for them: Popen may need descriptors 3 and 4 itself.
        script = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
        words = ["bash", "-c", script, "bash", found, f"--user-data-dir={profile}", *_OPTIONS]
        self._process = subprocess.Popen(
            words,
            pass_fds=(to_browser, from_browser),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_browser)
        os.close(from_browser)
        self._rest, self._number, self._session = b"", 0, ""
        self._events: list[dict[str, Any]] = []
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        self._session = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        offline = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
        self.call("Network.emulateNetworkConditions", **offline)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol, and return its result. What happens meanwhile is kept."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self._events.append(answer)

    def _next(self) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "chromium does not answer"
            block = os.read(self._in, 2**20)
            assert block, "chromium has ended"
            self._rest += block
        message, _, self._rest = self._rest.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def open(self, path: Path, width: int, height: int = 900, dark: bool = False, media: str = "") -> None:
        """Open a file in a window of this width (pixels), and wait until it is loaded."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self._events.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self._events):
            self._events.append(self._next())
        self.run("document.fonts.ready.then(() => 1)")

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page; a promise is awaited."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    @property
    def messages(self) -> list[str]:
        """Every message on the console, error and warning since the page was opened."""
        methods = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self._events if event.get("method") in methods]

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for since it was opened, its own among them."""
        sent = [event["params"] for event in self._events if event.get("method") == "Network.requestWillBeSent"]
        return [one["request"]["url"] for one in sent]

    def picture(self, scale: float = 1.0) -> bytes:
        """Return the whole page as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": scale}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def close(self) -> None:
        """End the browser with all its processes."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._in)
        os.close(self._out)


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Browser]:
    """Start a browser, and end it."""
    opened = Browser(profile)
    try:
        yield opened
    finally:
        opened.close()
