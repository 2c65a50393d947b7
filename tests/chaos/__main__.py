"""`python -m tests.chaos --minutes 10`: exit status 1 for a lost, wrong or duplicate response, or a leak."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from .run import find_violations, run


def text(report: dict[str, Any]) -> str:
    """Formats the report."""
    lines = []
    for name, value in report.items():
        if isinstance(value, dict) and value:
            lines.append(f"{name}:")
            lines += [f"  {key}: {json.dumps(one)}" for key, one in value.items()]
        elif isinstance(value, list) and value:
            lines += [f"{name}:", *(f"  {one}" for one in value)]
        else:
            lines.append(f"{name}: {json.dumps(value)}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1, help="seed of the random calls; their interleaving still varies")
    parser.add_argument("--json", type=Path, help="file for the report as JSON")
    parser.add_argument("--tls", action="store_true", help="TLS, client certificates and keys")
    options = parser.parse_args()
    report = run(options.minutes, options.seed, tls=options.tls)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    print(text(report))
    violations = find_violations(report)
    print(f"\nfailed: {', '.join(violations)}" if violations else "\nnothing lost, mixed or leaked")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
