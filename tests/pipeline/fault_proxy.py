"""A proxy in front of a real S3 server (or any other) that makes some of the answers fail."""

import asyncio
import random
import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from aiohttp import ClientSession, ClientTimeout, web

Kind = Literal[
    "slow_down", "internal", "expired", "denied", "reset", "stall", "truncate", "slow", "garbage"
]
STATUS = {"slow_down": 503, "internal": 500, "expired": 400, "denied": 403}
CODE = {
    "slow_down": "SlowDown",
    "internal": "InternalError",
    "expired": "ExpiredToken",
    "denied": "AccessDenied",
}
XML = (
    '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code>'
    "<Message>made to fail: {code}</Message><RequestId>1</RequestId></Error>"
)
HOP = {"transfer-encoding", "connection", "content-length", "expect", "keep-alive"}


@dataclass
class Fault:
    """What happens to requests of `method` whose path with query, and some header, match: to the
    first `times` of them, or to a random `share`.
    """

    kind: Kind
    path: str = ""
    method: str = ""
    header: str = ""
    times: int | None = None
    share: float = 1.0
    done: int = field(default=0, init=False)

    def takes(self, request: web.BaseRequest, dice: random.Random) -> bool:
        method, path = request.method, request.raw_path
        if self.times is not None and self.done >= self.times:
            return False
        if not re.search(self.path, path) or not re.fullmatch(self.method or ".*", method):
            return False
        if not re.search(self.header, "\n".join(request.headers.values())):
            return False
        if dice.random() >= self.share:
            return False
        self.done += 1
        return True


class FaultProxy:
    """`faults` may be changed at any time; `seen` counts requests by the fault they met."""

    def __init__(self, upstream: str, seed: int) -> None:
        self.upstream, self.faults = upstream, list[Fault]()
        self.seen: Counter[str] = Counter()
        self.requests: list[str] = []
        self._dice = random.Random(seed)
        self.url = ""

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        path = request.raw_path
        self.requests.append(f"{request.method} {path}")
        fault = next((f for f in self.faults if f.takes(request, self._dice)), None)
        kind = fault.kind if fault else None
        self.seen[kind or "fine"] += 1
        if kind == "stall":
            await asyncio.sleep(3600)
        if kind == "reset":
            return await _reset(request)
        if request.headers.get("Expect") and request.transport is not None:
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if kind in STATUS:
            await request.read()
            return web.Response(status=STATUS[kind], text=XML.format(code=CODE[kind]))
        if kind == "garbage":
            return web.Response(status=500, text="<html>the load balancer is unwell</html>")
        return await self._forward(request, kind)

    async def _forward(self, request: web.BaseRequest, kind: str | None) -> web.StreamResponse:
        headers = {k: v for k, v in request.headers.items() if k.lower() not in HOP}
        url, body = f"{self.upstream}{request.raw_path}", await request.read()
        async with (
            ClientSession(auto_decompress=False, timeout=ClientTimeout(total=60)) as session,
            session.request(
                request.method, _as_is(url), headers=headers, data=body, allow_redirects=False
            ) as found,
        ):
            data = await found.read()
            sent = {k: v for k, v in found.headers.items() if k.lower() not in HOP}
            length = found.headers.get("Content-Length", str(len(data)))
            reply = web.StreamResponse(status=found.status, headers=sent)
            reply.headers["Content-Length"] = length
            await reply.prepare(request)
            if request.method != "HEAD":
                await _send(reply, data, kind)
            if kind == "truncate":
                return await _reset(request, polite=True)
            return reply


async def _send(reply: web.StreamResponse, data: bytes, kind: str | None) -> None:
    if kind == "truncate":
        await reply.write(data[: len(data) // 2])
    elif kind == "slow":
        step = max(1, len(data) // 8)
        for start in range(0, len(data), step):
            await reply.write(data[start : start + step])
            await asyncio.sleep(0.05)
    else:
        await reply.write(data)


async def _reset(request: web.BaseRequest, polite: bool = False) -> web.StreamResponse:
    """Close the connection; with RST unless `polite`."""
    transport = request.transport
    assert transport is not None
    if not polite:
        linger = struct.pack("ii", 1, 0)
        transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    await asyncio.sleep(0.01)
    transport.close()
    raise asyncio.CancelledError


def _as_is(url: str) -> Any:
    from yarl import URL

    return URL(url, encoded=True)


@contextmanager
def faulty(upstream: str, *faults: Fault, seed: int = 0) -> Iterator[FaultProxy]:
    """A proxy in a thread, for as long as the block lasts."""
    proxy = FaultProxy(upstream, seed)
    proxy.faults = list(faults)
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    runners: list[web.ServerRunner] = []

    async def start() -> None:
        runner = web.ServerRunner(web.Server(proxy.answer, access_log=None), shutdown_timeout=0)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        proxy.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        ready.set()

    def run() -> None:
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    assert ready.wait(30)
    try:
        yield proxy
    finally:
        asyncio.run_coroutine_threadsafe(_end(runners[0]), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def _end(runner: web.ServerRunner) -> None:
    """Also of requests that are never answered."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.wait(others, timeout=5) if others else None
    await runner.cleanup()
