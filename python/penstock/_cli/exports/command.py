"""`penstock export`: manifests, units of systemd, rules for Prometheus, and a dashboard for Grafana."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from penstock._cli.exports import monitoring, units
from penstock._export import manifests, yaml_text
from penstock._export.kserve import kserve
from penstock._images import checks, describe, record
from penstock._images.describe import split
from penstock.errors import StartupError

__all__ = ["add_parser", "run"]

_PLATFORMS = {"kubernetes": "Kubernetes", "kserve": "KServe"}
_LABEL = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
_MOST_REPLICAS, _QUEUE_DEPTH = 4, 8
_AMOUNT = re.compile(r"[0-9]+(?:\.[0-9]+)?(?:m|[kKMGTPE]i?)?")


def add_parser(commands: Any) -> None:
    """Adds the command to the parser."""
    parser = commands.add_parser(
        "export",
        allow_abbrev=False,
        help="print manifests for Kubernetes or KServe, units of systemd, or rules and dashboards of metrics",
        description="Prints what other systems need to know about a server.",
    )
    kinds = parser.add_subparsers(dest="kind", metavar="KIND", required=True)
    for kind, platform in _PLATFORMS.items():
        _add_manifests(
            kinds.add_parser(
                kind,
                allow_abbrev=False,
                help=f"manifests for {platform}",
                description="Prints manifests for `kubectl apply -f -`, for the image that penstock build built.",
            )
        )
    units.add_parser(kinds)
    monitoring.add_parsers(kinds)


def _add_manifests(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="PATH[:object]", help="folder or file that the image was built of")
    parser.add_argument("--image", metavar="NAME", help="image (default: the last one built of the path)")
    parser.add_argument("--name", metavar="NAME", help="name of the deployment (default: as the image)")
    parser.add_argument("--namespace", metavar="NAME", help="namespace (default: of kubectl)")
    parser.add_argument("--replicas", metavar="N", type=int, default=1, help="minimum of replicas (default: 1)")
    parser.add_argument(
        "--max-replicas", metavar="N", type=int, help="maximum of replicas (default: 4; kserve: that of KServe)"
    )
    parser.add_argument(
        "--queue-depth", metavar="N", type=int, help="kubernetes: queued requests per replica to scale at (default: 8)"
    )
    parser.add_argument("--cpu", metavar="N", help="cores per replica, 2 or 500m")
    parser.add_argument("--memory", metavar="SIZE", help="memory per replica, for example 4Gi")
    parser.add_argument("--gpu", metavar="N", help="NVIDIA GPUs per replica")
    parser.add_argument("--env", metavar="NAME=VALUE", action="append", default=[], help="variable")
    parser.add_argument("--secret", metavar="NAME", action="append", default=[], help="Secret that becomes variables")
    parser.add_argument("--tls", metavar="NAME", help="kubernetes: Secret of the type kubernetes.io/tls: speak TLS")
    parser.add_argument("--keys", metavar="NAME", help="kubernetes: Secret with an entry keys.toml, the file of keys")
    parser.add_argument("--grpc", action="store_true", help="kserve: gRPC in place of REST")
    parser.add_argument("--raw", action="store_true", help="kserve: plain Deployment, without Knative")


def run(options: argparse.Namespace) -> int:
    """Runs the command. Returns the exit status.

    Raises:
        StartupError: there is no image, or an option is not valid in Kubernetes.
    """
    if options.kind in monitoring.KINDS:
        return monitoring.run(options)
    if options.kind == units.KIND:
        return units.run(options)
    deployed = _deployed(options)
    if options.kind == "kubernetes":
        for flag in ("grpc", "raw"):
            if getattr(options, flag):
                raise StartupError(f"--{flag} is for kserve")
        documents = manifests.kubernetes(deployed)
    else:
        for flag in ("queue_depth", "tls", "keys"):
            if getattr(options, flag) is not None:
                raise StartupError(f"--{flag.replace('_', '-')} is for kubernetes")
        documents = kserve(deployed, grpc=options.grpc, raw=options.raw)
    print(yaml_text.documents(documents), end="")
    return 0


def _deployed(options: argparse.Namespace) -> manifests.Deployed:
    path, _ = split(options.target)
    built = record.read(path)
    image = options.image or (built.image if built else None)
    if image is None:
        raise StartupError(
            f"no image was built of {options.target} yet: use penstock build {options.target} -t NAME, or give --image"
        )
    checks.check_image(image)
    # The record has the ports of the image, even if --image gives its name in a registry.
    known = built or describe.describe(options.target)[0]
    name = options.name or re.sub(r"[^a-z0-9]+", "-", image.rsplit("/", 1)[-1].partition("@")[0].partition(":")[0])
    for label in (name, options.namespace, options.tls, options.keys, *options.secret):
        if label is not None and not _LABEL.fullmatch(label):
            raise StartupError(f"{label!r} is not a name in Kubernetes, expected lower case letters, digits and '-'")
    least, most = _replicas(options)
    return manifests.Deployed(
        name=name,
        image=image,
        http_port=known.http_port,
        grpc_port=known.grpc_port,
        namespace=options.namespace,
        replicas=least,
        most_replicas=most,
        queue_depth=_QUEUE_DEPTH if options.queue_depth is None else options.queue_depth,
        resources=_resources(options),
        env=_variables(options.env),
        secrets=tuple(options.secret),
        files=_files(options),
    )


def _files(options: argparse.Namespace) -> tuple[manifests.SecretFiles, ...]:
    tls = [manifests.SecretFiles("tls", options.tls)] if options.tls is not None else []
    keys = [manifests.SecretFiles("keys", options.keys)] if options.keys is not None else []
    return (*tls, *keys)


def _replicas(options: argparse.Namespace) -> tuple[int, int | None]:
    least, most = options.replicas, options.max_replicas
    if least < 0:
        raise StartupError(f"--replicas {least}: expected 0 or more")
    if options.queue_depth is not None and options.queue_depth < 1:
        raise StartupError(f"--queue-depth {options.queue_depth}: expected 1 or more")
    if options.kind == "kubernetes" and most is None:
        # Without replicas there is no queue that could trigger scaling.
        most = max(least, _MOST_REPLICAS) if least else 0
    if most is not None and most < (least if options.kind == "kubernetes" else max(1, least)):
        raise StartupError(f"--max-replicas {most}: expected {max(1, least)} or more, as --replicas is {least}")
    if options.kind == "kubernetes" and most and not least:
        raise StartupError("--replicas 0: expected 1 or more, since scaling from 0 needs a queue to measure")
    return least, most


def _resources(options: argparse.Namespace) -> dict[str, str]:
    given = {"cpu": options.cpu, "memory": options.memory, "nvidia.com/gpu": options.gpu}
    amounts = {name: amount for name, amount in given.items() if amount is not None}
    for name, amount in amounts.items():
        if not _AMOUNT.fullmatch(amount):
            raise StartupError(f"{amount!r} is not an amount of {name}, expected one such as 2, 500m or 4Gi")
    return amounts


def _variables(given: Sequence[str]) -> dict[str, str]:
    for text in given:
        if not re.match(r"[A-Za-z_][A-Za-z0-9_]*=", text):
            raise StartupError(f"--env {text}: expected NAME=VALUE")
    return dict(text.split("=", 1) for text in given)
