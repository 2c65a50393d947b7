"""Streams side by side: many long streams at once, read by one loader.

    python -m benches.load.streams --clients 64 --repeats 3

Server-sent events of penstock, of FastAPI written by hand (chats with sse-starlette), and of bare axum;
`ModelStreamInfer` of penstock, of PyTriton's decoupled model, and of bare tonic. Every stream is 10,000 messages of one
INT32, or of one short text (`words`, and chat completions of OpenAI's API). The servers take turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
# Triton's Python backend loads the libpython of the interpreter that created its environment.
LIBPYTHON = {"LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR") or "")}
MESSAGES = 10_000
CALL = "/inference.GRPCInferenceService/ModelStreamInfer"
GENERATE = "/v2/models/tokens/generate_stream"
CHAT = "/v1/chat/completions"
CHAT_EXTRA = 3
"""Events of a chat completion that are not text: the role, the finish reason and `[DONE]`."""


def free_port() -> int:
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def free_ports_in_a_row(count: int) -> list[int]:
    """Adjacent free ports."""
    while True:
        first = free_port()
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError, OverflowError):
            for port in range(first, first + count):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return list(range(first, first + count))


def binary(name: str) -> str:
    """One of the compiled tools; `BENCH_TOOLS` names a folder that has them."""
    folder = os.environ.get("BENCH_TOOLS")
    if folder is None:
        subprocess.run(["cargo", "build", "--release", "-q"], cwd=HERE / "tools", check=True)
        folder = str(HERE / "tools/target/release")
    return f"{folder}/{name}"


def requests(messages: int) -> dict[str, bytes]:
    """The requests for streams of so many messages."""
    chat = {"model": "words", "messages": [{"role": "user", "content": str(messages)}], "stream": True}
    return {
        "http": b'{"n":%d}' % messages,
        "words": b'{"prompt":"%d"}' % messages,
        "chat": json.dumps(chat).encode(),
        "grpc": grpc_request(messages),
    }


def grpc_request(messages: int) -> bytes:
    """A gRPC request for `tokens`: `ModelInferRequest` with one INT32 `n` of shape [1], raw."""
    from tritonclient.grpc import service_pb2 as pb

    message = pb.ModelInferRequest(model_name="tokens", id="1")
    message.inputs.add(name="n", datatype="INT32", shape=[1])
    message.raw_input_contents.append(messages.to_bytes(4, "little"))
    return bytes(message.SerializeToString())


class Side:
    """A server and the requests for its streams."""

    def __init__(
        self, name: str, wire: str, command: list[str], port: int, path: str, *, body: str | None = None, extra: int = 0
    ) -> None:
        self.name, self.wire, self.command, self.port, self.path = name, wire, command, port, path
        self.body = body or wire
        """Name of its request."""
        self.extra = extra
        """Events of a stream beyond its messages, which are not counted."""
        self.runs: list[dict[str, Any]] = []

    def run(self, bodies: dict[str, str], clients: int, messages: int, pid: int) -> None:
        """Reads several streams at once, to their ends."""
        command = [binary("streams"), self.wire, f"127.0.0.1:{self.port}", self.path, bodies[self.body]]
        before = cpu_seconds(pid)
        counts = [str(clients), str(messages + self.extra)]
        done = subprocess.run([*command, *counts], capture_output=True, text=True, check=False)
        if done.returncode or not done.stdout:
            sys.exit(f"{self.name}: {done.stdout}{done.stderr}")
        run = json.loads(done.stdout)
        run["per_second"] = clients * messages / run["seconds"]
        run["cpu_us"] = (cpu_seconds(pid) - before) / (clients * messages) * 1e6
        self.runs.append(run)

    def median(self, key: str) -> float:
        """Median of a value over all runs."""
        return statistics.median(run[key] for run in self.runs)


def cpu_seconds(pid: int) -> float:
    """Processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def sides(folder: str, names: list[str], messages: int) -> list[Side]:
    """Servers whose environments are installed."""
    venvs = Path(os.environ.get("BENCH_VENVS", "bench-data/venvs"))
    ports = [free_port() for _ in range(5)]
    triton = free_ports_in_a_row(3)
    answer = f"{folder}/answer"
    # As long as a response of Penstock.
    Path(answer).write_bytes(b"\x12\x40" + bytes(64))
    limit = [binary("limit"), str(ports[0]), str(ports[1]), answer, answer, answer]
    own = [sys.executable, str(HERE / "servers/penstock_streams.py"), str(ports[2]), str(ports[3])]
    fastapi = [str(venvs / "fastapi/bin/python"), str(HERE / "servers/fastapi_streams.py"), str(ports[4])]
    pytriton = [str(venvs / "pytriton/bin/python"), str(HERE / "servers/pytriton_streams.py")]
    pytriton += [str(port) for port in triton]
    found = [
        Side("axum", "http", limit, ports[0], "/stream"),
        Side("penstock", "http", own, ports[2], GENERATE),
        Side("penstock, batched", "http", own, ports[2], GENERATE.replace("tokens", "batched")),
        Side("penstock, looped", "http", own, ports[2], GENERATE.replace("tokens", "looped")),
        Side("penstock, words", "http", own, ports[2], GENERATE.replace("tokens", "words"), body="words"),
        Side("penstock, chat", "http", own, ports[2], CHAT, body="chat", extra=CHAT_EXTRA),
        Side("fastapi", "http", fastapi, ports[4], "/stream"),
        Side("fastapi, chat", "http", fastapi, ports[4], CHAT, body="chat", extra=CHAT_EXTRA),
        Side("tonic", "grpc", limit, ports[1], CALL),
        Side("penstock", "grpc", own, ports[3], CALL),
        Side("pytriton", "grpc", pytriton, triton[1], CALL),
    ]
    if messages != MESSAGES:
        # These always send so many.
        found = [side for side in found if side.command != limit]
    return [side for side in found if Path(side.command[0]).exists() and (not names or side.name in names)]


def is_up(side: Side) -> bool:
    """Returns True if it is ready. Triton listens before its model is loaded; its HTTP port reports readiness."""
    try:
        if side.name != "pytriton":
            socket.create_connection(("127.0.0.1", side.port), 1).close()
            return True
        ready = f"http://127.0.0.1:{side.port - 1}/v2/models/tokens/ready"
        with urllib.request.urlopen(ready, timeout=1) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


@contextlib.contextmanager
def started(found: list[Side], log: Any) -> Iterator[dict[str, int]]:
    """Runs the servers. Yields their process ids by side."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for side in found:
            key = " ".join(side.command)
            if key not in processes:
                environment = {**os.environ, **LIBPYTHON} if side.name == "pytriton" else None
                processes[key] = subprocess.Popen(side.command, stdout=log, stderr=log, env=environment)
            for _ in range(600):
                if is_up(side):
                    break
                time.sleep(0.1)
            else:
                sys.exit(f"{side.name} does not come up")
        time.sleep(1.0)
        yield {side.name + side.wire: processes[" ".join(side.command)].pid for side in found}
    finally:
        for process in processes.values():
            process.terminate()
        for process in processes.values():
            process.wait(30)


def main() -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--messages", type=int, default=MESSAGES, help="messages of a stream")
    parser.add_argument("sides", nargs="*", help="names of servers; all by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "wb") as log:
        bodies = {}
        for name, body in requests(options.messages).items():
            bodies[name] = f"{folder}/{name}"
            Path(bodies[name]).write_bytes(body)
        found = sides(folder, options.sides, options.messages)
        with started(found, log) as pids:
            for _ in range(options.repeats):
                for side in found:
                    side.run(bodies, options.clients, options.messages, pids[side.name + side.wire])
    columns = "| server | wire | messages/s | processor us a message | first message p50 ms | p99 ms |"
    print(f"{columns}\n|---|---|--:|--:|--:|--:|")
    for side in found:
        first = side.median("first_p50_us") / 1000, side.median("first_p99_us") / 1000
        speed, cost = side.median("per_second"), side.median("cpu_us")
        print(f"| {side.name} | {side.wire} | {speed:,.0f} | {cost:.2f} | {first[0]:.1f} | {first[1]:.1f} |")


if __name__ == "__main__":
    main()
