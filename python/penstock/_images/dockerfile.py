"""The text of a Dockerfile: the same for the same description, ordered so that builders can reuse what is the same."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable

from penstock._images.checks import HOME, VENV, WORKDIR, check_spec, place_of
from penstock._spec.image import ImageSpec

__all__ = ["FIRST_LINE", "default_python", "dockerfile", "layer_count"]

FIRST_LINE = "# Made by `penstock build`: change what it was made from, not this file."
USER = 10001
"""The number of the user that serves. A number, as Kubernetes wants it to see that it is not root."""

_START_PERIOD = "600s"
"""While models load, a failed check says nothing."""

_FIND_PYTHON = (
    "python3 -c 'import ensurepip, venv' 2>/dev/null"
    " || { apt-get update && apt-get install -y --no-install-recommends python3 python3-venv"
    " && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/aux-cache /var/log/*; }"
)


def dockerfile(spec: ImageSpec, *, version: str, wheel: str | None = None) -> str:
    """The Dockerfile of an image.

    Args:
        spec: What the image needs.
        version: Penstock's, which is installed from the package index.
        wheel: The name of a file in the context's `wheels`, which is installed instead.

    Raises:
        StartupError: the description cannot be built.
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
    """How many steps a builder will name."""
    return len([line for line in text.splitlines() if re.match(r"[A-Z]+ ", line)])


def default_python() -> str:
    """The Python that builds: what was tried with it is what the image runs."""
    return f"{sys.version_info[0]}.{sys.version_info[1]}"


def _environment(spec: ImageSpec) -> list[str]:
    own = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_CACHE_DIR": "1", "PYTHONUNBUFFERED": "1"}
    # Ours in one, as each is a step; the user's one to a line, to be read.
    fixed = " ".join(f"{name}={value}" for name, value in own.items() if name not in spec.env)
    return [f"ENV {fixed}", *(f"ENV {name}={_quoted(value)}" for name, value in spec.env.items())]


def _system(spec: ImageSpec) -> list[str]:
    if not spec.system_packages:
        return []
    return [
        "RUN apt-get update \\",
        " && apt-get install -y --no-install-recommends \\",
        *(f"      {package} \\" for package in sorted(set(spec.system_packages))),
        # Logs and caches have the time of the build in them.
        " && rm -rf /var/lib/apt/lists/* /var/cache/apt /var/cache/ldconfig/aux-cache /var/log/*",
    ]


def _python(spec: ImageSpec) -> list[str]:
    lines = []
    if spec.base_image is not None:
        lines.append(f"RUN {_FIND_PYTHON}")
        least = spec.python_version or "3.10"
        wanted = tuple(map(int, least.split(".")))
        exact = spec.python_version is not None
        test = f"sys.version_info[:{len(wanted)}] {'==' if exact else '>='} {wanted}"
        said = f"the base image has Python %d.%d, expected {least}{'' if exact else ' or newer'}"
        code = f"import sys; sys.exit(None if {test} else '{said}' % sys.version_info[:2])"
        lines.append(f'RUN python3 -c "{code}"')
    # Of its own, as Debian's Python takes no packages; it sees what the base image brings.
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
        # One hash asks for all, and nobody could have written ours.
        return [*copied, f"RUN python -m pip install {given}", f"RUN python -m pip install {own}"]
    # Together, so that versions are chosen that suit both, or it is said that there are none.
    return [*copied, f"RUN python -m pip install {given} {own}"]


def _user(spec: ImageSpec) -> list[str]:
    return [
        # Not useradd: small images have none.
        f"RUN echo 'penstock:x:{USER}:{USER}::{HOME}:/bin/sh' >> /etc/passwd \\",
        f" && echo 'penstock:x:{USER}:' >> /etc/group \\",
        f" && mkdir -p {WORKDIR} {HOME} \\",
        f" && chown {USER}:{USER} {HOME}",
    ]


def _files(spec: ImageSpec) -> list[str]:
    tops = sorted({place_of(place).split("/")[1] for _, place in spec.files})
    copied = [_copy(f"files/{top}/", f"/{top}/") for top in tops]
    if not spec.writable:
        return copied
    folders = " ".join(_shell(place) for place in sorted({place_of(one) for one in spec.writable}))
    # After the copies, which make the folders root's. Not what is in them: that would copy it once more.
    return [*copied, f"RUN mkdir -p {folders} && chown {USER}:{USER} {folders}"]


def _start(spec: ImageSpec) -> list[str]:
    ready = f"http://127.0.0.1:{spec.http_port}/v2/health/ready"
    check = [f"{VENV}/bin/python", "-c", f"import urllib.request as r; r.urlopen('{ready}', timeout=4)"]
    grpc = "off" if spec.grpc_port is None else f"0.0.0.0:{spec.grpc_port}"
    ports = [str(port) for port in (spec.http_port, spec.grpc_port) if port is not None]
    return [
        f"WORKDIR {WORKDIR}",
        f"USER {USER}:{USER}",
        # Variables: flags after the image's name, and -e, come before them.
        f"ENV HOME={HOME} PENSTOCK_HTTP=0.0.0.0:{spec.http_port} PENSTOCK_GRPC={grpc}",
        f"EXPOSE {' '.join(ports)}",
        f"HEALTHCHECK --interval=10s --timeout=5s --start-period={_START_PERIOD} --retries=3 \\",
        f"  CMD {_json(check)}",
        f"ENTRYPOINT {_json([f'{VENV}/bin/penstock', 'serve', *spec.serve])}",
    ]


def _run(command: str) -> str:
    plain = command.strip()
    # What Dockerfiles would read otherwise: a flag, a list, a line that goes on, a document.
    if re.match(r"\[|--|#", plain) or plain.endswith("\\") or "<<" in plain or re.search(r"[\r\n]", plain):
        return f"RUN {_json(['/bin/sh', '-c', command])}"
    return f"RUN {plain}"


def _copy(source: str, place: str) -> str:
    if re.fullmatch(r"[\w./@+-]+", source, re.ASCII):
        return f"COPY {source} {place}"
    return f"COPY {_json([source, place])}"


def _json(words: Iterable[str]) -> str:
    return json.dumps(list(words), ensure_ascii=False)


def _quoted(value: str) -> str:
    return '"' + re.sub(r'(["\\$])', r"\\\1", value) + '"'


def _shell(text: str) -> str:
    import shlex

    return shlex.quote(text)
