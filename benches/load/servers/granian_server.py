"""Granian by RSGI, its native interface, with routes by hand: one worker process."""

from __future__ import annotations

from granian import Granian

import models
from by_hand import answers

ROUTES = {path: (answer, [("content-type", kind)]) for path, (answer, kind) in answers().items()}


async def app(scope, proto):
    answer, headers = ROUTES[scope.path]
    proto.response_bytes(200, headers, answer(await proto()))


if __name__ == "__main__":
    # uvloop was faster than asyncio; runtime modes, threads and task implementations differed by less than the noise.
    Granian(
        "granian_server:app",
        port=models.PORT,
        interface="rsgi",
        http="1",
        websockets=False,
        loop="uvloop",
        runtime_mode="mt",
        backlog=2048,
        log_enabled=False,
    ).serve()
