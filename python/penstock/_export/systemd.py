"""Units of systemd: a hardened service, and the sockets that it is given."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["Service", "units"]

_HARDENING = """\
DynamicUser=yes
UMask=0077
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateUsers=yes
ProtectProc=invisible
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectKernelLogs=yes
ProtectControlGroups=yes
ProtectClock=yes
ProtectHostname=yes
NoNewPrivileges=yes
CapabilityBoundingSet=
AmbientCapabilities=
LockPersonality=yes
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
SystemCallArchitectures=native
SystemCallFilter=@system-service
SystemCallFilter=~@privileged @resources"""

_WITHOUT_GPU = ("PrivateDevices=yes", "ProcSubset=pid")

_WITH_GPU = (
    "PrivateDevices=no",
    "DevicePolicy=closed",
    *(f"DeviceAllow={name} rw" for name in ("char-nvidia", "char-nvidia-uvm", "char-nvidia-caps", "char-drm")),
)
"""`closed` leaves the standard devices, such as /dev/null. The driver's library reads files of /proc."""

_PLAIN = re.compile(r"[A-Za-z0-9_@:,./+=^-]+")
"""Words that need no quotes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Service:
    """A server as a service."""

    name: str
    program: Sequence[str]
    """The program, with an absolute path, and its first arguments."""
    targets: Sequence[str]
    """Paths that it serves."""
    folder: str | None = None
    """Its working directory."""
    flags: Sequence[str] = ()
    """Flags of its command line, and their values."""
    files: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Files that only root can read, by the flag that names them. systemd passes copies to the service."""
    sockets: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Addresses that systemd opens, by the setting that they are."""
    gpu: bool = False
    memory: str | None = None
    """Limit of its memory."""


def units(service: Service) -> dict[str, str]:
    """The texts of the units, by the name of the file."""
    found = {f"{service.name}.service": _service(service)}
    for kind, addresses in service.sockets.items():
        found[_socket_name(service, kind)] = _socket(service, kind, addresses)
    return found


def _service(service: Service) -> str:
    credentials: dict[str, str] = {}
    words = [_word(word) for word in (*service.program, "serve", *service.targets, *service.flags)]
    for flag, paths in service.files.items():
        words += [flag, ",".join(_credential(path, credentials) for path in paths)]
    sockets = [f"Sockets={' '.join(_socket_name(service, kind) for kind in service.sockets)}"]
    lines = [
        "[Unit]",
        "Description=Penstock",
        "After=network-online.target",
        "Wants=network-online.target",
        "",
        "[Service]",
        "Type=notify",
        *(sockets if service.sockets else ()),
        f"ExecStart={' '.join(words)}",
        "ExecReload=kill -HUP $MAINPID",
        *([f"WorkingDirectory={_escaped(service.folder)}"] if service.folder else ()),
        "Restart=on-failure",
        "RestartPreventExitStatus=1 2",
        "TimeoutStartSec=30",
        "TimeoutStopSec=30",
        "LimitNOFILE=65536",
        "LimitCORE=0",
        *([f"MemoryMax={service.memory}"] if service.memory else ()),
        *(f"LoadCredential={name}:{_escaped(path)}" for path, name in credentials.items()),
        f"RuntimeDirectory={service.name}",
        f"CacheDirectory={service.name}",
        f"Environment=XDG_CACHE_HOME=%C/{service.name}",
        *_HARDENING.splitlines(),
        *(_WITH_GPU if service.gpu else _WITHOUT_GPU),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
    ]
    return "\n".join(lines) + "\n"


def _socket(service: Service, kind: str, addresses: Iterable[str]) -> str:
    lines = ["[Unit]", f"Description=Penstock: {kind}", "", "[Socket]"]
    lines += [f"ListenStream={_escaped(address.removeprefix('unix:'))}" for address in addresses]
    lines += [f"FileDescriptorName={kind}", f"Service={service.name}.service", "Backlog=4096"]
    # As that of a server that opens it.
    lines += ["SocketMode=0600"] if kind == "admin" else []
    return "\n".join([*lines, "", "[Install]", "WantedBy=sockets.target"]) + "\n"


def _socket_name(service: Service, kind: str) -> str:
    return f"{service.name}-{kind}.socket"


def _credential(path: str, credentials: dict[str, str]) -> str:
    """The path of a file's copy. Files of the same name get a number."""
    if path not in credentials:
        name = os.path.basename(path)
        taken = credentials.values()
        credentials[path] = name if name not in taken else f"{len(credentials)}-{name}"
    return f"%d/{_word(credentials[path])}"


def _escaped(text: str) -> str:
    """A text outside of a command line."""
    return text.replace("%", "%%")


def _word(text: str) -> str:
    """A word of a command line."""
    if _PLAIN.fullmatch(text):
        return text
    text = _escaped(text).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{text}"'
