"""`penstock bench`: a load on a model of a running server, and its measurement."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock._cli import call_arguments
from penstock._cli.bench_options import add_parser

if TYPE_CHECKING:
    from penstock._bench.inputs import Requests
    from penstock._bench.record import Record
    from penstock.client import Client, ClientOptions

__all__ = ["add_parser", "run"]

OK, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130


def run(options: argparse.Namespace) -> int:
    """Runs the benchmark, prints its table and writes its files. Returns the exit status."""
    from penstock._bench import record
    from penstock._bench.inputs import example, plain, probe, tensors
    from penstock.client import Client
    from penstock.errors import PenstockError

    try:
        given = _given(options)
        earlier = None if options.compare is None else record.read(options.compare)
        _check_files(options)
        headers = dict(call_arguments.pairs("--header", options.header))
        settings: ClientOptions = {
            "timeout": options.timeout,
            "headers": headers,
            "ca_file": options.ca_file,
            "binary": options.input_format == "binary",
        }
        client = Client(options.url, **settings)
    except (PenstockError, OSError, ValueError) as error:
        return _failed(error, USAGE)
    with client:
        try:
            if not any(one["inputs"] for one in given):
                given = [_with_example(given[0], example(client, options.model, options.model_version))]
            requests = (
                plain(options.model, given)
                if options.input_format == "plain"
                else tensors(client, options.model, given)
            )
            probe(client, options.model, given[0], requests)
            return _bench(options, client, settings, requests, earlier)
        except (PenstockError, OSError, ValueError) as error:
            return _failed(error, FAILED)
        except KeyboardInterrupt:
            return INTERRUPTED


def _bench(
    options: argparse.Namespace, client: Client, load: ClientOptions, requests: Requests, earlier: Record | None
) -> int:
    from penstock._bench import compare, document, report, table
    from penstock._bench.plan import BenchSettings
    from penstock._bench.progress import ProgressBar
    from penstock._bench.record import write
    from penstock._bench.run import Bench
    from penstock.client._options import settings as client_settings

    settings = BenchSettings(
        steps=options.rate or options.concurrency or (1,),
        is_open=options.rate is not None,
        seconds=options.seconds if options.seconds or options.requests else 5.0,
        requests=options.requests,
        warmup=options.warmup,
        repeat=options.repeat,
        percentiles=options.percentiles,
        timeout=options.timeout,
        threads=options.threads,
        connections=options.connections,
        poisson=options.arrivals == "poisson",
        max_in_flight=options.max_in_flight,
        seed=options.seed,
        validate=options.validate,
    )
    bar = ProgressBar(sys.stderr, settings)
    model = (options.model, options.model_version)
    bench = Bench(
        client,
        options=client_settings(load)[0],
        model=model,
        requests=requests,
        settings=settings,
        progress=bar.show,
    )
    shown = table.Table(settings, has_statistics=bench.has_statistics)
    # Standard output is the document if that is asked for.
    out = sys.stderr if options.json == "-" else sys.stdout
    result = document.head(client, model, settings, options.input_format)
    steps: list[Record] = []
    print(document.title(result), shown.header(), sep="\n", file=out, flush=True)
    for step in bench.steps():
        bar.clear()
        steps.append(step)
        print(shown.row(step), file=out, flush=True)
    bar.clear()
    result |= {"steps": steps, "stopped": bench.stopped}
    for line in table.error_lines(steps):
        print(line, file=out)
    if earlier is not None:
        result["comparison"] = compare.compare(earlier, steps)
        print(*compare.lines(result["comparison"], options.compare), sep="\n", file=out)
    if options.json is not None:
        write(options.json, result)
    if options.html is not None:
        Path(options.html).write_text(report.html(result), encoding="utf-8")
    if bench.stopped:
        print("penstock: stopped by Ctrl-C: the results are of the part before", file=sys.stderr)
        return INTERRUPTED
    return FAILED if any(step["failed"] for step in steps) and not options.allow_errors else OK


def _given(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Arguments of each request, as of `Client.infer`."""
    texts: list[tuple[str, str]] = []
    for file in options.request:
        text = Path(file).read_text(encoding="utf-8")
        if Path(file).suffix == ".jsonl":
            texts += [(line, f"{file}:{number}") for number, line in enumerate(text.splitlines(), 1) if line.strip()]
        else:
            texts.append((text, file))
    if options.request and not texts:
        raise ValueError(f"{options.request[0]} has no request")
    calls = [call_arguments.with_document(options, text, file) for text, file in texts]
    calls = calls or [call_arguments.with_document(options, None, "")]
    for call in calls:
        # They are headers of the client.
        del call["headers"]
    return calls


def _with_example(given: dict[str, Any], example: dict[str, Any]) -> dict[str, Any]:
    """The arguments with those of an example; given parameters and datatypes have priority."""
    return {**given, **{name: {**value, **given.get(name, {})} for name, value in example.items()}}


def _check_files(options: argparse.Namespace) -> None:
    """Refuses files that could not be written after the measurement."""
    for flag, file in (("--json", options.json), ("--html", options.html)):
        if file is None or file == "-":
            continue
        if Path(file).is_dir() or not Path(file).absolute().parent.is_dir():
            raise ValueError(f"{flag}: {file} is not a file in an existing folder")


def _failed(error: Exception, status: int) -> int:
    print(f"penstock: error: {' '.join(str(error).split())}", file=sys.stderr, flush=True)
    return status
