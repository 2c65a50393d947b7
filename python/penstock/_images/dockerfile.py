"""Text of a Dockerfile: equal for equal descriptions, in an order that lets builders reuse layers."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable

from penstock._images.checks import HOME, VENV, WORKDIR, check_spec, image_path
from penstock._spec.image import ImageSpec

__all__ = ["FIRST_LINE", "default_python", "dockerfile", "layer_count"]

FIRST_LINE = "# Made by `penstock build`: change what it was made from, not this file."
USER = 10001
"""User id of the server. A number, so that Kubernetes can check that it is not root."""

_START_PERIOD = "600s"
"""Time for loading models, during which failed health checks are ignored."""

_HEALTH_CHECK = (
    "import os, ssl, urllib.request as r; "
    # The certificate is not for this address. It is this container's own server.
    "tls = ssl._create_unverified_context() if os.environ.get('PENSTOCK_TLS_CERTIFICATE') else None; "
    "r.urlopen(('https' if tls else 'http') + '://127.0.0.1:{port}/v2/health/ready', timeout=4, context=tls)"
)
"""Command of the health check, over TLS where the variable of its setting is set."""

_FIND_PYTHON = (
    "python3 -c 'import ensurepip, venv' 2>/dev/null"
    " || { apt-get update && apt-get install -y --no-install-recommends python3 python3-venv"
    " && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/aux-cache /var/log/*; }"
)


def dockerfile(spec: ImageSpec, *, version: str, wheel: str | None = None) -> str:
    """The Dockerfile of an image.

    Args:
        spec: The description of the image.
        version: The version of Penstock to install from the package index.
        wheel: A file in the context's folder `wheels` to install instead.

    Raises:
        StartupError: the description is wrong.
    """
    check_spec(spec)
    parts = [
        [FIRST_LINE, f"FROM {spec.base_image or f'python:{spec.python_version or default_python()}-slim'}"],
        ["USER root", "ARG SOURCE_DATE_EPOCH", *_environment(spec)],
        _system(spec),
        _python(spec),
        [_run(command) for command in spec.commands_before],
        _packages(spec, version, wheel),
        [_run(command) for command in spec.commands_after],
        _user(spec),
        _files(spec),
        _start(spec),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def layer_count(text: str) -> int:
    """Number of steps in a builder's output."""
    return len([line for line in text.splitlines() if re.match(r"[A-Z]+ ", line)])


def default_python() -> str:
    """The Python version of this process, with which the user has tried the code."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _environment(spec: ImageSpec) -> list[str]:
    own = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1", "PYTHONUNBUFFERED": "1"}
    # The fixed variables share a line, since each line is a step; the user's have one each, to be readable.
    fixed = " ".join(f"{name}={value}" for name, value in own.items() if name not in spec.env)
    return [f"ENV {fixed}", *(f"ENV {name}={_quoted(value)}" for name, value in spec.env.items())]


def _system(spec: ImageSpec) -> list[str]:
    if not spec.system_packages:
        return []
    return [
        "RUN apt-get update \\",
        " && apt-get install -y --no-install-recommends \\",
        *(f"      {package} \\" for package in sorted(set(spec.system_packages))),
        # Logs and caches contain the time of the build.
        " && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/aux-cache /var/log/*",
    ]


def _python(spec: ImageSpec) -> list[str]:
    lines = []
    if spec.base_image is not None:
        lines.append(f"RUN {_FIND_PYTHON}")
        least = spec.python_version or "3.10"
        expected = tuple(map(int, least.split(".")))
        exact = spec.python_version is not None
        test = f"sys.version_info[:{len(expected)}] {'==' if exact else '>='} {expected}"
        message = f"the base image has Python %d.%d, expected {least}{'' if exact else ' or newer'}"
        code = f"import sys; sys.exit(None if {test} else '{message}' % sys.version_info[:2])"
        lines.append(f'RUN python3 -c "{code}"')
    # A virtual environment, since Debian's Python refuses packages. It can import those of the base image.
    return [
        *lines,
        f"RUN python3 -m venv --system-site-packages {VENV}",
        f"ENV VIRTUAL_ENV={VENV} PATH={VENV}/bin:$PATH",
    ]


def _packages(spec: ImageSpec, version: str, wheel: str | None) -> list[str]:
    own = f"/opt/penstock/{wheel}" if wheel else f"penstock=={version}"
    copied = [f"COPY wheels/{wheel} {own}"] if wheel else []
    if not spec.requirements:
        return [*copied, f"RUN python -m pip install {own}"]
    copied.append("COPY requirements.txt /opt/penstock/requirements.txt")
    given = "-r /opt/penstock/requirements.txt"
    if any("--hash" in line for line in spec.requirements):
        # With one hash pip requires hashes for all packages, and that of Penstock is not known.
        return [*copied, f"RUN python -m pip install {given}", f"RUN python -m pip install {own}"]
    # In one command, so that pip chooses versions that fit both, or reports a conflict.
    return [*copied, f"RUN python -m pip install {given} {own}"]


def _user(spec: ImageSpec) -> list[str]:
    return [
        # Without useradd, which small images lack.
        f"RUN echo 'penstock:x:{USER}:{USER}::{HOME}:/bin/sh' >> /etc/passwd \\",
        f" && echo 'penstock:x:{USER}:' >> /etc/group \\",
        f" && mkdir -p {WORKDIR} {HOME} \\",
        f" && chown {USER}:{USER} {HOME}",
    ]


def _files(spec: ImageSpec) -> list[str]:
    tops = sorted({image_path(target).split("/")[1] for _, target in spec.files})
    copied = [_copy(f"files/{top}/", f"/{top}/") for top in tops]
    if not spec.writable:
        return copied
    folders = " ".join(_shell(path) for path in sorted({image_path(folder) for folder in spec.writable}))
    # After the copies, which create the folders as root. Not recursive, which would copy the files into another layer.
    return [*copied, f"RUN mkdir -p {folders} && chown {USER}:{USER} {folders}"]


def _start(spec: ImageSpec) -> list[str]:
    check = [f"{VENV}/bin/python", "-c", _HEALTH_CHECK.format(port=spec.http_port)]
    grpc = "off" if spec.grpc_port is None else f"0.0.0.0:{spec.grpc_port}"
    ports = [str(port) for port in (spec.http_port, spec.grpc_port) if port is not None]
    return [
        f"WORKDIR {WORKDIR}",
        f"USER {USER}:{USER}",
        # As variables, so that flags after the image's name, and -e, take precedence.
        f"ENV HOME={HOME} PENSTOCK_HTTP=0.0.0.0:{spec.http_port} PENSTOCK_GRPC={grpc} PENSTOCK_CORE_DUMPS=off",
        f"EXPOSE {' '.join(ports)}",
        f"HEALTHCHECK --interval=10s --timeout=5s --start-period={_START_PERIOD} --retries=3 \\",
        f"  CMD {_json(check)}",
        f"ENTRYPOINT {_json([f'{VENV}/bin/penstock', 'serve', *spec.serve])}",
    ]


def _run(command: str) -> str:
    plain = command.strip()
    # Forms that a Dockerfile would interpret: a flag, a list, a continued line, a here-document.
    if re.match(r"\[|--|#", plain) or plain.endswith("\\") or "<<" in plain or re.search(r"[\r\n]", plain):
        return f"RUN {_json(['/bin/sh', '-c', command])}"
    return f"RUN {plain}"


def _copy(source: str, target: str) -> str:
    if re.fullmatch(r"[\w./@+-]+", source, re.ASCII):
        return f"COPY {source} {target}"
    return f"COPY {_json([source, target])}"


def _json(words: Iterable[str]) -> str:
    return json.dumps(list(words), ensure_ascii=False)


def _quoted(value: str) -> str:
    return '"' + re.sub(r'(["\\$])', r"\\\1", value) + '"'


def _shell(text: str) -> str:
    import shlex

    return shlex.quote(text)
