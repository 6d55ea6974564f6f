"""Debian's Chromium without a window, driven over a pipe by the DevTools protocol: nothing to install beside it."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_FLAGS = (
    "--headless=new",
    "--no-sandbox",  # root in a container has no other choice; the pages are our own
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
SECONDS = 60.0
AXE = files("axe_core_python").joinpath("axe.min.js")


@dataclass
class Page:
    """One tab. `complaints` are console messages, exceptions and violations; `requested` every address asked for."""

    browser: Browser
    session: str
    complaints: list[str] = field(default_factory=list)
    requested: list[str] = field(default_factory=list)

    def send(self, method: str, **words: Any) -> dict[str, Any]:
        return self.browser.send(method, words, self.session)

    def look(self, *, dark: bool = False, width: int = 1180, media: str = "screen") -> None:
        scheme = "dark" if dark else "light"
        self.send(
            "Emulation.setEmulatedMedia", media=media, features=[{"name": "prefers-color-scheme", "value": scheme}]
        )
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)

    def open(self, path: Path, *, scripts: bool = True) -> None:
        self.send("Page.navigate", url=path.as_uri())
        self.browser.wait(lambda: self.value("document.readyState === 'complete' && location.protocol === 'file:'"))
        if scripts:  # two frames, and the charts' observers have run
            self.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def value(self, script: str) -> Any:
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(found["exceptionDetails"])
        return found["result"].get("value")

    def press(self, key: str, code: str, number: int, *, text: str = "") -> None:
        """`number`: Windows' code of the key, by which Chromium knows it."""
        words = {"key": key, "code": code, "windowsVirtualKeyCode": number}
        self.send("Input.dispatchKeyEvent", type="keyDown", **words, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **words)

    def downloaded(self, folder: Path, click: Callable[[], None]) -> list[Path]:
        """Files that appear in a folder after `click`."""
        self.browser.send("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)})
        before = set(folder.iterdir())

        def finished() -> list[Path]:
            self.value("true")  # what else happened is read as well
            return [each for each in folder.iterdir() if each not in before and not each.name.endswith(".crdownload")]

        click()
        self.browser.wait(finished)
        return finished()

    def findings(self) -> list[str]:
        """What axe finds wrong with the page, as a whole."""
        self.value(AXE.read_text("utf-8") + ";true")
        found = self.value(
            "axe.run().then(found => found.violations.map(each => "
            "`${each.id}: ${each.nodes.map(node => node.html).join(' ').slice(0, 300)}`))"
        )
        return list(found)

    def picture(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=True, **self._whole())
        path.write_bytes(base64.b64decode(shot["data"]))

    def pdf(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        printed = self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        path.write_bytes(base64.b64decode(printed["data"]))

    def _whole(self) -> dict[str, Any]:
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 8_000), "scale": 1}}


class Browser:
    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None
        read, self._write = os.pipe()
        self._read, write = os.pipe()
        # the protocol's ends are descriptors 3 and 4 of the browser
        moved = f'exec 98<&{read} 99>&{write}; exec 3<&98 4>&99 98<&- 99>&-; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", moved, "bash", PROGRAM, *_FLAGS, f"--user-data-dir={profile}"],
            pass_fds=(read, write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "HOME": str(profile)},
        )
        os.close(read)
        os.close(write)
        self._number = 0
        self._buffer = b""
        self._pages: dict[str, Page] = {}

    def page(self) -> Page:
        target = self.send("Target.createTarget", {"url": "about:blank"})["targetId"]
        session = self.send("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        return page

    def send(self, method: str, words: dict[str, Any], session: str | None = None) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": words} | ({"sessionId": session} if session else {})
        os.write(self._write, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._notice(answer)

    def wait(self, met: Any) -> None:
        deadline = time.monotonic() + SECONDS
        while not met():
            assert time.monotonic() < deadline, "the page did not get there"

    def close(self) -> None:
        for end in (self._write, self._read):
            os.close(end)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(120)

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "Chromium does not answer"
            more = os.read(self._read, 1 << 20)
            assert more, "Chromium ended"
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _notice(self, event: dict[str, Any]) -> None:
        page = self._pages.get(event.get("sessionId", ""))
        if page is None:
            return
        match event.get("method"):
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" as method:
                page.complaints.append(f"{method}: {json.dumps(event['params'])[:600]}")
            case "Network.requestWillBeSent":
                page.requested.append(event["params"]["request"]["url"])


@contextlib.contextmanager
def browsing() -> Iterator[Browser]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(Path(profile))
        try:
            yield browser
        finally:
            browser.close()
