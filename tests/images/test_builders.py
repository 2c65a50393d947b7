"""Choice of the builder, its arguments, and the progress. The builders are fakes that record their arguments."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from penstock import StartupError
from penstock._cli import main
from penstock._images import builders, record
from penstock._images.progress import Progress, step_of
from penstock.images import ImageSpec, build, recorded

STAND_IN = """#!{python}
import sys
from pathlib import Path
here = Path(__file__)
arguments = sys.argv[1:]
if arguments[0] != "build":
    print({silence!r}, file=sys.stderr)
    sys.exit(bool({silence!r}))
with open(here.parent / (here.name + ".arguments"), "w") as file:
    file.write("\\0".join(arguments))
print("STEP 1/2: FROM x")
print("succeeded" if {status} == 0 else "failed")
Path(arguments[arguments.index("--iidfile") + 1]).write_text("sha256:abc\\n")
sys.exit({status})
"""


class Programs:
    """Folder of fake builders, the only one on PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, *, silence: str = "", status: int = 0) -> None:
        program = self.folder / name
        program.write_text(STAND_IN.format(python=sys.executable, silence=silence, status=status))
        program.chmod(0o755)

    def arguments(self, name: str) -> list[str]:
        return (self.folder / f"{name}.arguments").read_text().split("\0")


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    (tmp_path / "programs").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    return Programs(tmp_path / "programs")


@pytest.fixture
def app(tmp_path: Path) -> Path:
    (tmp_path / "app").mkdir()
    (tmp_path / "app/app.py").write_text("import penstock\n")
    return tmp_path / "app"


@pytest.mark.parametrize("name", ["docker", "podman", "buildah"])
def test_each_builder_gets_its_arguments(programs: Programs, app: Path, name: str) -> None:
    programs.add(name)
    built = build(ImageSpec(), "digits:1", of=app)
    assert (built.builder, built.id, built.image) == (name, "sha256:abc", "digits:1")
    arguments = programs.arguments(name)
    assert arguments[0] == "build"
    assert arguments[arguments.index("--tag") + 1] == "digits:1"
    assert arguments[arguments.index("--build-arg") + 1] == "SOURCE_DATE_EPOCH=315532800"
    assert arguments[arguments.index("--file") + 1] == f"{arguments[-1]}/Dockerfile"
    # Only this format has health checks.
    assert ("docker" in arguments) == ("--timestamp" in arguments) == (name != "docker")


def test_first_working_builder_is_used(programs: Programs, app: Path) -> None:
    programs.add("docker", silence="Cannot connect to the Docker daemon")
    programs.add("buildah")
    assert build(ImageSpec(), "digits:1").builder == "buildah"
    programs.add("podman")
    assert build(ImageSpec(), "digits:1").builder == "podman"
    with pytest.raises(StartupError) as refused:
        build(ImageSpec(), "digits:1", builder="docker")
    assert str(refused.value) == "docker is installed, but does not work: Cannot connect to the Docker daemon"


def test_missing_builder_error_suggests_context(
    programs: Programs, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["build", str(app), "-t", "digits:1"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "penstock: error: no docker, podman or buildah is installed to build an image; --context DIR writes "
        "the build context for another machine"
    )
    assert main.main(["build", str(app), "-t", "digits:1", "--builder", "make"]) == 1
    assert capsys.readouterr().err.splitlines()[-1] == (
        "penstock: error: 'make' is not a program that can build an image; expected one of docker, podman, buildah"
    )


def test_failed_build_is_not_recorded(programs: Programs, app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs.add("podman", status=3)
    assert main.main(["build", str(app), "-t", "digits:1"]) == 1
    err = capsys.readouterr().err
    assert "failed\n" in err
    assert err.splitlines()[-1] == "penstock: error: podman could not build the image (exit status 3)"
    assert recorded(app) is None


def test_d15_built_image_is_recorded_or_passed_to_record(programs: Programs, app: Path) -> None:
    programs.add("podman")
    assert recorded(app) is None
    built = build(ImageSpec(http_port=8080, grpc_port=None), "digits:1", of=app)
    assert recorded(app) == built
    assert (built.http_port, built.grpc_port) == (8080, None)
    recorded_names: list[str] = []
    assert build(ImageSpec(record=recorded_names.append), "digits:2", of=app) == recorded(app)
    assert recorded_names == ["digits:2"]


def test_files_of_a_folder_have_separate_images(app: Path) -> None:
    one = record.Built("one:1", "sha256:1", "docker", "0", 8000, 8001)
    record.write(app / "app.py", one)
    assert (recorded(app / "app.py"), recorded(app)) == (one, None)
    assert set(json.loads((app / ".penstock/image.json").read_text())) == {"app.py"}


@pytest.mark.parametrize("text", ["no JSON", "[]", '{".": 1}', '{".": {"image": "x"}}'])
def test_broken_record_is_an_error(app: Path, text: str) -> None:
    (app / ".penstock").mkdir()
    (app / ".penstock/image.json").write_text(text)
    with pytest.raises(StartupError, match=r"image\.json .*build the image again$"):
        recorded(app)


def test_flags_and_table_extend_the_folders_settings(
    programs: Programs, app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("penstock.toml needs Python 3.11")
    (app / "requirements.txt").write_text("alpha\n")
    (app / "penstock.toml").write_text(
        '[image]\npython_version = "3.12"\nsystem_packages = ["libgomp1"]\nfiles = {"app.py" = "/data/copy.py"}\n'
    )
    (tmp_path / "more.txt").write_text("beta \\\n  >= 2  # why\n\n-r most.txt\n")
    (tmp_path / "most.txt").write_text("gamma\n")
    flags = ["--requirements", str(tmp_path / "more.txt"), "--apt", "ffmpeg", "--env", "A=b=c", "--run", "true"]
    assert main.main(["build", str(app), "--context", str(tmp_path / "context"), *flags]) == 0
    assert capsys.readouterr().out.startswith(f"penstock: wrote {tmp_path / 'context'}; build it with: docker build")
    assert (tmp_path / "context/requirements.txt").read_text() == "alpha\nbeta >= 2\ngamma\n"
    assert (tmp_path / "context/files/data/copy.py").is_file()
    text = (tmp_path / "context/Dockerfile").read_text()
    for part in ("FROM python:3.12-slim", "      ffmpeg \\\n      libgomp1", 'ENV A="b=c"', "RUN true"):
        assert part in text
    assert main.main(["build", str(app), "--dry-run", *flags]) == 0
    assert capsys.readouterr().out == text


def test_object_of_a_file_can_be_built(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["build", f"{app}/app.py:double", "--dry-run"]) == 0
    assert 'ENTRYPOINT ["/opt/venv/bin/penstock", "serve", "app.py:double"]' in capsys.readouterr().out


REFUSED = [
    (["-t", "Digits"], "'Digits' is not a name for an image, expected one in lower case such as digits:1.0"),
    (["-t", "d@sha256:" + "0" * 64], "is not a name for an image, expected one in lower case such as digits:1.0"),
    (["--dry-run", "--env", "A"], "--env A: expected NAME=VALUE"),
    (["--dry-run", "--python", "3.9"], "python_version 3.9: Penstock runs on Python 3.10 and newer"),
    (["--dry-run", "--wheel", "gone.whl"], "--wheel: there is no file gone.whl"),
    (
        ["--dry-run", "--requirements", "gone.txt"],
        "the requirements gone.txt cannot be read: No such file or directory",
    ),
]


@pytest.mark.parametrize(("flags", "message"), REFUSED, ids=[message[:30] for _, message in REFUSED])
def test_invalid_build_flags_are_refused(
    app: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["build", str(app), *flags]) == 1
    assert capsys.readouterr().err.endswith(f"{message}\n")


def test_build_requires_a_name_or_a_context(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["build", str(app)]) == 2
    assert capsys.readouterr().err == (
        "penstock build: error: name the image with -t NAME, or give --context or --dry-run\n"
    )


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[image]\nbase = 'x'", "unknown key 'base' in [image]"),
        ("[image]\nsystem_packages = 'x'", "[image] system_packages is 'x', expected a list of texts"),
        ("[image]\npython_version = 3.12", "[image] python_version is 3.12, expected a text"),
        ("[image]\nhttp_port = 'x'", "[image] http_port is 'x', expected a port"),
        ("[image]\nenv = ['x']", "[image] env is ['x'], expected a table of texts"),
        ("[image]\nfiles = ['x']", "[image] files is ['x'], expected a table of paths"),
        ("image = 1", "image must be a table, written as [image]"),
    ],
)
def test_invalid_image_table_is_refused(
    app: Path, table: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if sys.version_info < (3, 11):
        pytest.skip("penstock.toml needs Python 3.11")
    (app / "penstock.toml").write_text(table)
    assert main.main(["build", str(app), "--dry-run"]) == 1
    assert message in capsys.readouterr().err


def test_circular_requirements_are_refused(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (app / "requirements.txt").write_text("-r requirements.txt\n")
    assert main.main(["build", str(app), "--dry-run"]) == 1
    assert capsys.readouterr().err.endswith("files of requirements name each other in a circle\n")


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("STEP 3/21: RUN x", (3, 21, "RUN x")),
        ("Step 3/21 : RUN x", (3, 21, "RUN x")),
        ("#7 [ 3/21] RUN x", (3, 21, "RUN x")),
        ("#7 [stage-0 3/21] RUN x", (3, 21, "RUN x")),
        ("#7 DONE 0.1s", None),
        ("Collecting numpy 3/21", None),
    ],
)
def test_steps_are_parsed_from_builder_output(line: str, step: tuple[int, int, str] | None) -> None:
    assert step_of(line) == step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_bar_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    progress = Progress(terminal)
    for line in ("STEP 1/4: FROM x", "a secret of pip's", "STEP 2/4: RUN " + "y" * 100, "STEP 1/4: late"):
        progress.line(line)
    progress.end()
    shown = terminal.getvalue()
    assert shown.count("\n") == 1
    assert "[############............] 2/4" in shown
    assert "secret" not in shown
    assert "late" not in shown
    assert max(len(part.rstrip()) for part in shown.split("\r\x1b[K")) <= 60


def test_all_output_is_shown_without_a_terminal() -> None:
    for stream, all_lines in ((io.StringIO(), False), (Terminal(), True)):
        progress = Progress(stream, all_lines=all_lines)
        progress.line("STEP 1/4: FROM x")
        progress.line("Collecting numpy")
        progress.end()
        assert stream.getvalue() == "STEP 1/4: FROM x\nCollecting numpy\n"


def test_failed_build_shows_its_output_after_the_bar(
    programs: Programs, app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.add("podman", status=3)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(builders.BuildError, match=r"(?s)^STEP 1/2: FROM x\nfailed\npodman could not build"):
        build(ImageSpec(), "digits:1")
