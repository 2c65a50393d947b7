"""Report of a benchmark: one HTML file that loads nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from penstock._bench import plots
from penstock._bench.document import title
from penstock._bench.record import Record, latency_name
from penstock._bench.table import error_lines, mean_batch, milliseconds, server_ms, step_name

__all__ = ["html"]


def html(result: Record) -> str:
    """The report of a result."""
    steps = result["steps"]
    sections = [
        _table(result),
        *(_figures("Load", plots.load(result)) if steps else ()),
        *(_figures("Latency", plots.latency(result)) if steps else ()),
        *(_figures("Server", plots.server(result)) if steps else ()),
        _comparison(result),
        _errors(steps),
    ]
    name = f"{result['model']}: penstock bench"
    stopped = "<p class='note'>Stopped by Ctrl-C: the results are of the part before.</p>" if result["stopped"] else ""
    style = files("penstock._bench").joinpath("report.css").read_text(encoding="utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(name)}</title><style>\n{style}</style></head><body><main>"
        f"<h1>{escape(result['model'])}</h1><p class='lead'>{escape(title(result))}</p>"
        f"<p class='note'>{escape(_client(result))}</p>{stopped}{''.join(sections)}</main></body></html>\n"
    )


def _client(result: Record) -> str:
    settings, client = result["settings"], result["client"]
    return (
        f"{result['started']}, client: penstock {client['version']}, {settings['threads']} of {client['processors']} "
        f"processors, timeout {settings['timeout']:g} s, inputs as {settings['input_format']}"
    )


def _figures(name: str, figures: Sequence[tuple[str, str]]) -> Iterator[str]:
    if figures:
        body = "".join(f"<figure><figcaption>{escape(text)}</figcaption>{chart}</figure>" for text, chart in figures)
        yield f"<h2>{name}</h2><div class='figures'>{body}</div>"


def _table(result: Record) -> str:
    steps = result["steps"]
    is_open, repeats = result["loop"] == "open", result["settings"]["repeat"] > 1
    names = [*map(latency_name, result["percentiles"]), "max"]
    has_server = any(one["server"] for step in steps for one in step["rounds"])
    headings = ["rate" if is_open else "concurrency", "req/s", *(["range"] if repeats else [])]
    headings += [f"{name} ms" for name in names] + ["requests", "errors"] + (["late", "unsent"] if is_open else [])
    headings += ["queue ms", "compute ms", "batch"] if has_server else []
    rows = []
    for step in steps:
        low, high = step["range"]["throughput"]
        cells = [step_name(step).split()[-1], f"{step['median']['throughput']:,.1f}"]
        cells += [f"{low:,.0f}-{high:,.0f}"] if repeats else []
        cells += [milliseconds(step["median"].get(name)) for name in names]
        cells += [f"{sum(one['requests'] for one in step['rounds']):,}", f"{step['failed']:,}"]
        cells += [f"{step['late']:,}", f"{step['unsent']:,}"] if is_open else []
        if has_server:
            batch = mean_batch(step)
            cells += [milliseconds(server_ms(step, "queue")), milliseconds(server_ms(step, "compute"))]
            cells.append("-" if batch is None else f"{batch:.2f}")
        rows.append(cells)
    return f"<h2>Steps</h2>{_rows(headings, rows)}"


def _comparison(result: Record) -> str:
    comparison = result.get("comparison")
    if not comparison:
        return ""
    names = list(dict.fromkeys(name for step in comparison for name in step["figures"]))
    rows = []
    for step in comparison:
        cells = [step_name(step)]
        for name in names:
            if (figure := step["figures"].get(name)) is None:
                cells.append("-")
            else:
                overlaps = " (ranges overlap)" if figure["overlaps"] else ""
                cells.append(f"{figure['ratio']:.3f}{overlaps}")
        rows.append(cells)
    note = "<p class='note'>New / old, medians of the rounds.</p>"
    return f"<h2>Comparison</h2>{note}{_rows(['step', *names], rows)}"


def _errors(steps: Sequence[Record]) -> str:
    lines = list(error_lines(steps))
    if not lines:
        return ""
    return f"<h2>Errors</h2><ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _rows(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th scope='col'>{escape(one)}</th>" for one in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
