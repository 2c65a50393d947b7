"""`penstock keys`: adds, lists, revokes and checks the keys of a server's clients."""

from __future__ import annotations

import argparse
import sys
from datetime import date, datetime, timezone
from typing import Any

from penstock._config import keys_file
from penstock.config import load_config
from penstock.errors import ConfigError

__all__ = ["add_parser", "run"]

_LIMITS = ("rate", "burst", "concurrency")


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "keys",
        allow_abbrev=False,
        help="add, list, revoke and check the keys of clients",
        description="Edits the file of the setting keys_file. A running server reads a changed file within 5 seconds, "
        "and on SIGHUP. The file has digests of keys, not the keys.",
    )
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    add = verbs.add_parser("add", allow_abbrev=False, help="add a key and print it once")
    add.add_argument("name", metavar="NAME", help="name of the client, for logs and handlers")
    add.add_argument(
        "--scope",
        action="append",
        default=[],
        help="category of routes that the key may use, or *; repeatable (default: health, metadata, inference)",
    )
    add.add_argument(
        "--model", action="append", default=[], help="pattern of models that it may use, !PATTERN excludes; repeatable"
    )
    add.add_argument("--expires", metavar="DATE", type=_date, help="first day on which it is not valid: 2027-01-31")
    add.add_argument("--rate", metavar="N/UNIT", help="most inference requests in a time: 100/s, 60/m or 10/h")
    add.add_argument(
        "--burst", metavar="N", type=int, help="requests that may come at once (default: those of a second)"
    )
    add.add_argument("--concurrency", metavar="N", type=int, help="most inference requests at once")
    add.add_argument("--stdin", action="store_true", help="read the key from standard input, do not generate one")
    verbs.add_parser("list", allow_abbrev=False, help="list the keys by name")
    revoke = verbs.add_parser("revoke", allow_abbrev=False, help="remove a key")
    revoke.add_argument("name", metavar="NAME", help="name of the client")
    verbs.add_parser("check", allow_abbrev=False, help="check the file")
    for verb in verbs.choices.values():
        verb.add_argument("--file", metavar="FILE", help="file of keys (default: the setting keys_file)")
        verb.add_argument("--config", metavar="FILE", help="configuration file (default: penstock.toml, if it exists)")


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: the file cannot be read or written, or has a problem.
    """
    path = options.file or load_config(file=options.config).keys_file
    if path is None:
        print("penstock keys: error: which file? give --file, or the setting keys_file", file=sys.stderr)
        return 2
    if options.verb == "add":
        return _add(path, options)
    if options.verb == "list":
        _list(path)
    elif options.verb == "revoke":
        keys_file.revoke(path, options.name)
        print(f"penstock: revoked {options.name}")
    else:
        print(f"penstock: {path} has {len(keys_file.entries(path))} keys, and no problem")
    return 0


def _add(path: str, options: argparse.Namespace) -> int:
    key = sys.stdin.readline().rstrip("\r\n") if options.stdin else keys_file.generate()
    try:
        digest = keys_file.digest(key)
    except ValueError as error:
        raise ConfigError(f"--stdin: {error}") from None
    given = {name: getattr(options, name) for name in _LIMITS}
    limits = {name: value for name, value in given.items() if value is not None}
    entry = keys_file.Entry(options.name, digest, options.scope, options.model, options.expires, limits)
    keys_file.add(path, entry)
    if options.stdin:
        print(f"penstock: added {options.name}")
    else:
        # The only time that it is shown.
        print(key)
        print(f"penstock: added {options.name}; this key is not shown again", file=sys.stderr)
    return 0


def _list(path: str) -> None:
    now = datetime.now(timezone.utc)
    for entry in keys_file.entries(path):
        scopes = ",".join(entry.get("scopes", ["health", "metadata", "inference"]))
        models = ",".join(entry.get("models", ["*"]))
        expires = entry.get("expires")
        until = f"  expires {expires}" if expires else ""
        limits = "".join(f"  {name} {entry[name]}" for name in _LIMITS if name in entry)
        ended = "  EXPIRED" if keys_file.is_expired(entry, now) else ""
        subject = f"  subject {entry['subject']}" if "subject" in entry else ""
        print(f"{entry['name']}  scopes {scopes}  models {models}{limits}{until}{ended}{subject}")


def _date(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date such as 2027-01-31") from None
