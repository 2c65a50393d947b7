"""The programs that build images: which of them is here, and how each is asked."""

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
"""Lines of a failed build that are shown."""


class BuildError(StartupError):
    """The builder could not build the image."""


@dataclass(frozen=True, slots=True)
class Builder:
    """One program that builds images."""

    name: str
    build: tuple[str, ...]
    """Its words for a build, before the flags that all understand."""
    probe: tuple[str, ...]
    """Answers at once, and fails where nothing could be built."""
    dates: bool
    """Whether it gives all files of the image one time, so that the same context is the same image."""
    runs: bool = True
    """Whether it runs images, in one command."""

    def command(self, context: Path, name: str, id_file: Path, epoch: int, *, fresh: bool) -> list[str]:
        """The command that builds an image."""
        words = [self.name, *self.build, "--tag", name, "--iidfile", str(id_file)]
        words += ["--build-arg", f"SOURCE_DATE_EPOCH={epoch}", "--file", str(context / "Dockerfile")]
        if self.dates:
            words += ["--timestamp", str(epoch)]
        return [*words, *(["--no-cache"] if fresh else []), str(context)]

    def image(self, context: Path, name: str, epoch: int, progress: Progress, *, fresh: bool = False) -> str:
        """Builds an image, and gives its id.

        Raises:
            BuildError: the builder failed; the end of what it said is in the message.
        """
        with tempfile.TemporaryDirectory() as folder:
            id_file = Path(folder, "id")
            command = self.command(context, name, id_file, epoch, fresh=fresh)
            said: list[str] = []
            # The others reuse what has not changed by themselves.
            with subprocess.Popen(  # noqa: S603 - that is what was asked for
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
                        said = [*said[1 - _TAIL :], line.rstrip()]
                        progress.line(line.rstrip())
                except BaseException:
                    process.terminate()
                    raise
                finally:
                    progress.end()
            if process.returncode != 0:
                tail = "" if progress.shows_lines else "\n".join(said) + "\n"
                raise BuildError(f"{tail}{self.name} could not build the image (exit status {process.returncode})")
            return id_file.read_text(encoding="utf-8").strip()


BUILDERS = {
    "docker": Builder("docker", ("build", "--progress=plain"), ("version", "--format", "{{.Server.Version}}"), False),
    "podman": Builder("podman", ("build", "--format", "docker"), ("info",), True),
    # A health check is no part of the other format.
    "buildah": Builder("buildah", ("build", "--format", "docker"), ("version",), True, False),
}


def find(name: str | None = None) -> Builder:
    """The builder of a name, or else the first that is here and answers.

    Raises:
        StartupError: there is none.
    """
    return _find(name, list(BUILDERS), "build an image")


def find_runner(built_by: str) -> Builder:
    """The program that runs what another, or the same, has built.

    Raises:
        StartupError: there is none.
    """
    # These two keep their images in one place.
    return _find(
        "podman" if built_by == "buildah" else built_by, [n for n, one in BUILDERS.items() if one.runs], "run an image"
    )


def _find(name: str | None, known: list[str], purpose: str) -> Builder:
    if name is not None and name not in known:
        raise StartupError(f"{name!r} is no program that can {purpose}; known are {', '.join(known)}")
    silent = []
    for one in [name] if name else known:
        builder = BUILDERS[one]
        if shutil.which(one) is None:
            continue
        why = _fails(builder)
        if why is None:
            return builder
        silent.append(f"{one} is here, but does not answer: {why}")
    if silent:
        raise StartupError("; ".join(silent))
    raise StartupError(
        f"there is no {name or ', '.join(known[:-1]) + ' or ' + known[-1]} here to {purpose}"
        + ("; --context DIR writes what another machine can build" if purpose.startswith("build") else "")
    )


def _fails(builder: Builder) -> str | None:
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
