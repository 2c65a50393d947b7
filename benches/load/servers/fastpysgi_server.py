"""FastPySGI (libuv, llhttp) by WSGI, with routes by hand: one thread, which reads, computes and writes."""

from __future__ import annotations

import fastpysgi

import models
from by_hand import answers

ROUTES = {path: (answer, [("Content-Type", kind)]) for path, (answer, kind) in answers().items()}


def app(environ, start_response):
    answer, headers = ROUTES[environ["PATH_INFO"]]
    start_response("200 OK", headers)
    return [answer(environ["wsgi.input"].read())]


if __name__ == "__main__":
    fastpysgi.server.tcp_nodelay = 1
    fastpysgi.run(app, host="127.0.0.1", port=models.PORT)
