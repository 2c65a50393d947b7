"""`python -m benches.pytriton`: both products one after the other, and a table of results with ratios.

Run it at the repository's root on a machine that does nothing else. PyTriton's environment and the loader are those of
benches/load. With `--seconds 0.2`, it only checks that it works.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from benches.load.machine import provenance
from benches.pytriton.measure import Row, measure

_HEAD = ("what", "PyTriton", "Penstock", "better by")


def main() -> int:
    """Measures, prints, and saves the requested results."""
    parser = argparse.ArgumentParser(prog="python -m benches.pytriton", description=__doc__)
    parser.add_argument("--seconds", type=float, default=5, help="how long each measurement takes (default: 5)")
    parser.add_argument("--connections", type=int, default=64, help="of the loader (default: 64)")
    parser.add_argument("--models", type=int, default=30, help="of the start with many models (default: 30)")
    parser.add_argument("--repeats", type=int, default=3, help="turns of each; the table has the medians (default: 3)")
    parser.add_argument("--json", type=Path, help="a file for the numbers and where they are from")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        rows = measure(Path(folder), options.seconds, options.connections, options.models, options.repeats)
    print(table(rows))
    if options.json:
        options.json.write_text(json.dumps({**provenance(), "rows": [vars(row) for row in rows]}, indent=1) + "\n")
    return 0


def table(rows: list[Row]) -> str:
    """Formats the results as Markdown."""
    lines = [_HEAD, ("---",) * len(_HEAD)]
    for row in rows:
        lines.append((row.what, _shown(row.pytriton, row.unit), _shown(row.penstock, row.unit), f"{row.ratio():.1f}x"))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _shown(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


if __name__ == "__main__":
    sys.exit(main())
