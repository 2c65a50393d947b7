"""Image builders: docker, podman and buildah, and their commands."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from penstock._images.progress import Progress
from penstock.errors import StartupError

__all__ = ["BUILDERS", "BuildError", "Builder", "find", "find_runner"]

_TAIL = 40
"""Lines of output in the error of a failed build."""


class BuildError(StartupError):
    """The builder could not build the image."""


@dataclass(frozen=True, slots=True)
class Builder:
    """A program that builds images."""

    name: str
    build: tuple[str, ...]
    """Arguments of a build, before the flags that all builders share."""
    probe: tuple[str, ...]
    """Arguments of a quick command that fails if the builder does not work."""
    dates: bool
    """True if it can set the time of all files, so that equal contexts give equal images."""
    runs: bool = True
    """True if it can run images."""

    def command(self, context: Path, name: str, id_file: Path, epoch: int, *, no_cache: bool) -> list[str]:
        """The command that builds an image."""
        arguments = [self.name, *self.build, "--tag", name, "--iidfile", str(id_file)]
        arguments += ["--build-arg", f"SOURCE_DATE_EPOCH={epoch}", "--file", str(context / "Dockerfile")]
        if self.dates:
            arguments += ["--timestamp", str(epoch)]
        return [*arguments, *(["--no-cache"] if no_cache else []), str(context)]

    def image(self, context: Path, name: str, epoch: int, progress: Progress, *, no_cache: bool = False) -> str:
        """Builds an image. Returns its id.

        Raises:
            BuildError: the builder failed; the message has the last lines of its output.
        """
        with tempfile.TemporaryDirectory() as folder:
            id_file = Path(folder, "id")
            command = self.command(context, name, id_file, epoch, no_cache=no_cache)
            tail: list[str] = []
            # buildah reuses layers only with this variable.
            with subprocess.Popen(  # noqa: S603 - the purpose of the command
                command,
                env={"BUILDAH_LAYERS": "true", **os.environ},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            ) as process:
                assert process.stdout is not None
                try:
                    for line in process.stdout:
                        tail = [*tail[1 - _TAIL :], line.rstrip()]
                        progress.line(line.rstrip())
                except BaseException:
                    process.terminate()
                    raise
                finally:
                    progress.end()
            if process.returncode != 0:
                output = "" if progress.shows_lines else "\n".join(tail) + "\n"
                raise BuildError(f"{output}{self.name} could not build the image (exit status {process.returncode})")
            return id_file.read_text(encoding="utf-8").strip()


BUILDERS = {
    "docker": Builder("docker", ("build", "--progress=plain"), ("version", "--format", "{{.Server.Version}}"), False),
    "podman": Builder("podman", ("build", "--format", "docker"), ("info",), True),
    # The OCI format has no health check.
    "buildah": Builder("buildah", ("build", "--format", "docker"), ("version",), True, False),
}


def find(name: str | None = None) -> Builder:
    """The builder of a name, or else the first one that is installed and works.

    Raises:
        StartupError: no builder works.
    """
    return _find(name, list(BUILDERS), "build an image")


def find_runner(built_by: str) -> Builder:
    """The program that runs images of a builder.

    Raises:
        StartupError: the program is not installed or does not work.
    """
    # podman and buildah share their images.
    return _find(
        "podman" if built_by == "buildah" else built_by,
        [name for name, builder in BUILDERS.items() if builder.runs],
        "run an image",
    )


def _find(name: str | None, known: list[str], purpose: str) -> Builder:
    if name is not None and name not in known:
        raise StartupError(f"{name!r} is not a program that can {purpose}; expected one of {', '.join(known)}")
    failed = []
    for candidate in [name] if name else known:
        builder = BUILDERS[candidate]
        if shutil.which(candidate) is None:
            continue
        reason = _failure(builder)
        if reason is None:
            return builder
        failed.append(f"{candidate} is installed, but does not work: {reason}")
    if failed:
        raise StartupError("; ".join(failed))
    raise StartupError(
        f"no {name or ', '.join(known[:-1]) + ' or ' + known[-1]} is installed to {purpose}"
        + ("; --context DIR writes the build context for another machine" if purpose.startswith("build") else "")
    )


def _failure(builder: Builder) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command
            [builder.name, *builder.probe], capture_output=True, text=True, errors="replace", timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else f"exit status {done.returncode}"
