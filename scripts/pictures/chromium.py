"""A headless Chromium, spoken to by its own protocol: with scripts off, its command line can only take pictures."""

import asyncio
import base64
import json
import os
import signal
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

START_SECONDS, CALL_SECONDS = 60.0, 60.0
LOOK_SECONDS = 0.05
ARGUMENTS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run"),
    *("--disable-dev-shm-usage", "--remote-debugging-port=0"),
)


CONTEXT_GONE = -32000
"""The protocol's code for a page that was left meanwhile, in various words."""


class NavigatedError(Exception):
    """The page that was asked is gone."""


@dataclass
class Tab:
    """One page; `size` in pixels as a phone or a desk has them."""

    socket: aiohttp.ClientWebSocketResponse
    number: int = 0
    loaded: list[str] = field(default_factory=list)

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": parameters})
        async with asyncio.timeout(CALL_SECONDS):
            while True:
                told = await self.socket.receive_json()
                if told.get("method") == "Page.loadEventFired":
                    self.loaded.append(method)
                if told.get("id") == self.number:
                    if told.get("error", {}).get("code") == CONTEXT_GONE:
                        raise NavigatedError(method)
                    assert "error" not in told, f"{method}: {told['error']}"
                    result: dict[str, Any] = told["result"]
                    return result

    async def open(self, address: str, *, size: tuple[int, int], dark: bool, scripts: bool = False) -> None:
        await self.call("Page.enable")
        await self.call("DOM.enable")
        await self.call("CSS.enable")
        await self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        await self.call(
            "Emulation.setDeviceMetricsOverride",
            width=size[0],
            height=size[1],
            deviceScaleFactor=1,
            mobile=True,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.loaded.clear()
        await self.call("Page.navigate", url=address)
        async with asyncio.timeout(CALL_SECONDS):
            while not self.loaded:
                told = await self.socket.receive_json()
                if told.get("method") == "Page.loadEventFired":
                    self.loaded.append("waited")

    async def evaluate(self, expression: str) -> Any:
        """Of a page whose scripts are on; a promise is awaited."""
        told = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    async def until(self, condition: str) -> None:
        """An expression becomes true, on this page or on the one that a form leads to: asked again and again, for a
        page that is left may be kept, frozen, and never answer a promise.
        """
        async with asyncio.timeout(CALL_SECONDS):
            while True:
                with suppress(NavigatedError):
                    if await self.evaluate(f"document.readyState === 'complete' && Boolean({condition})"):
                        return
                await asyncio.sleep(LOOK_SECONDS)

    async def type(self, selector: str, text: str, *, then: str = "") -> None:
        """As a keyboard does; `then` is a key."""
        root = (await self.call("DOM.getDocument"))["root"]["nodeId"]
        node = (await self.call("DOM.querySelector", nodeId=root, selector=selector))["nodeId"]
        await self.call("DOM.focus", nodeId=node)
        await self.call("Input.insertText", text=text)
        if then:
            await self.press(then)

    async def press(self, key: str) -> None:
        code = {"Enter": 13, "Tab": 9}[key]
        for kind in ("keyDown", "keyUp"):
            given = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            await self.call(
                "Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **given
            )

    async def markup(self) -> str:
        root = (await self.call("DOM.getDocument", depth=-1))["root"]["nodeId"]
        text: str = (await self.call("DOM.getOuterHTML", nodeId=root))["outerHTML"]
        return text

    async def unfold(self) -> None:
        root = (await self.call("DOM.getDocument"))["root"]["nodeId"]
        found = await self.call("DOM.querySelectorAll", nodeId=root, selector="details")
        for node in found["nodeIds"]:
            await self.call("DOM.setAttributeValue", nodeId=node, name="open", value="")

    async def width(self) -> int:
        """Of everything that is laid out."""
        width: float = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]["width"]
        return round(width)

    async def style(self, selector: str) -> dict[str, str]:
        root = (await self.call("DOM.getDocument"))["root"]["nodeId"]
        node = (await self.call("DOM.querySelector", nodeId=root, selector=selector))["nodeId"]
        computed = (await self.call("CSS.getComputedStyleForNode", nodeId=node))["computedStyle"]
        return {one["name"]: one["value"] for one in computed}

    async def height(self) -> int:
        height: float = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]["height"]
        return round(height)

    async def picture(self) -> bytes:
        return base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])


@asynccontextmanager
async def tab(program: str, folder: Path) -> AsyncIterator[Tab]:
    process = await asyncio.create_subprocess_exec(
        program,
        *(*ARGUMENTS, f"--user-data-dir={folder}"),
        stdout=DEVNULL,
        stderr=DEVNULL,
        start_new_session=True,
    )
    try:
        port = await _port(process, folder / "DevToolsActivePort")
        async with aiohttp.ClientSession() as session:
            async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
                address = json.loads(await answer.text())["webSocketDebuggerUrl"]
            async with session.ws_connect(address, max_msg_size=0) as socket:
                yield Tab(socket)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def _port(process: Process, file: Path) -> int:
    async with asyncio.timeout(START_SECONDS):
        while process.returncode is None:
            with suppress(OSError, ValueError, IndexError):
                return int(file.read_text().splitlines()[0])  # noqa: ASYNC240 - a line in a test's folder
            await asyncio.sleep(LOOK_SECONDS)
    raise AssertionError(f"Chromium ended with {process.returncode}")
