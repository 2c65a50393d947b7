"""Which program builds, how it is asked, and what is shown meanwhile. The programs are stand-ins that note words."""

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
words = sys.argv[1:]
if words[0] != "build":
    print({silence!r}, file=sys.stderr)
    sys.exit(bool({silence!r}))
with open(here.parent / (here.name + ".words"), "w") as file:
    file.write("\\0".join(words))
print("STEP 1/2: FROM x")
print("it goes well" if {status} == 0 else "it goes wrong")
Path(words[words.index("--iidfile") + 1]).write_text("sha256:abc\\n")
sys.exit({status})
"""


class Programs:
    """A folder that is all of PATH."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(self, name: str, *, silence: str = "", status: int = 0) -> None:
        program = self.folder / name
        program.write_text(STAND_IN.format(python=sys.executable, silence=silence, status=status))
        program.chmod(0o755)

    def words(self, name: str) -> list[str]:
        return (self.folder / f"{name}.words").read_text().split("\0")


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
def test_each_program_is_asked_in_its_words(programs: Programs, app: Path, name: str) -> None:
    programs.add(name)
    built = build(ImageSpec(), "digits:1", of=app)
    assert (built.builder, built.id, built.image) == (name, "sha256:abc", "digits:1")
    words = programs.words(name)
    assert words[0] == "build"
    assert words[words.index("--tag") + 1] == "digits:1"
    assert words[words.index("--build-arg") + 1] == "SOURCE_DATE_EPOCH=315532800"
    assert words[words.index("--file") + 1] == f"{words[-1]}/Dockerfile"
    # Without this format, there would be no health check.
    assert ("docker" in words) == ("--timestamp" in words) == (name != "docker")


def test_the_first_that_answers_builds(programs: Programs, app: Path) -> None:
    programs.add("docker", silence="Cannot connect to the Docker daemon")
    programs.add("buildah")
    assert build(ImageSpec(), "digits:1").builder == "buildah"
    programs.add("podman")
    assert build(ImageSpec(), "digits:1").builder == "podman"
    with pytest.raises(StartupError) as refused:
        build(ImageSpec(), "digits:1", builder="docker")
    assert str(refused.value) == "docker is installed, but does not work: Cannot connect to the Docker daemon"


def test_without_a_program_it_is_said_what_else_there_is(
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


def test_a_build_that_fails_is_remembered_nowhere(
    programs: Programs, app: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    programs.add("podman", status=3)
    assert main.main(["build", str(app), "-t", "digits:1"]) == 1
    err = capsys.readouterr().err
    assert "it goes wrong\n" in err
    assert err.splitlines()[-1] == "penstock: error: podman could not build the image (exit status 3)"
    assert recorded(app) is None


def test_d15_the_image_is_remembered_or_told(programs: Programs, app: Path) -> None:
    programs.add("podman")
    assert recorded(app) is None
    built = build(ImageSpec(http_port=8080, grpc_port=None), "digits:1", of=app)
    assert recorded(app) == built
    assert (built.http_port, built.grpc_port) == (8080, None)
    told: list[str] = []
    assert build(ImageSpec(record=told.append), "digits:2", of=app) == recorded(app)
    assert told == ["digits:2"]


def test_files_of_one_folder_have_images_of_their_own(app: Path) -> None:
    one = record.Built("one:1", "sha256:1", "docker", "0", 8000, 8001)
    record.write(app / "app.py", one)
    assert (recorded(app / "app.py"), recorded(app)) == (one, None)
    assert set(json.loads((app / ".penstock/image.json").read_text())) == {"app.py"}


@pytest.mark.parametrize("text", ["no JSON", "[]", '{".": 1}', '{".": {"image": "x"}}'])
def test_what_was_remembered_and_is_broken_is_told(app: Path, text: str) -> None:
    (app / ".penstock").mkdir()
    (app / ".penstock/image.json").write_text(text)
    with pytest.raises(StartupError, match=r"image\.json .*build the image again$"):
        recorded(app)


def test_flags_and_the_table_come_over_what_the_folder_says(
    programs: Programs, app: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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


def test_one_object_of_a_file_can_be_built(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_wrong_flags_are_refused(app: Path, flags: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["build", str(app), *flags]) == 1
    assert capsys.readouterr().err.endswith(f"{message}\n")


def test_a_build_needs_a_name_or_a_place(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_a_wrong_table_is_refused(app: Path, table: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    (app / "penstock.toml").write_text(table)
    assert main.main(["build", str(app), "--dry-run"]) == 1
    assert message in capsys.readouterr().err


def test_requirements_that_name_each_other_are_refused(app: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_steps_are_read_from_what_builders_say(line: str, step: tuple[int, int, str] | None) -> None:
    assert step_of(line) == step


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_one_line_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
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
    assert max(len(part) for part in shown.split("\r\x1b[K")) <= 60


def test_elsewhere_all_is_shown() -> None:
    for stream, all_lines in ((io.StringIO(), False), (Terminal(), True)):
        progress = Progress(stream, all_lines=all_lines)
        progress.line("STEP 1/4: FROM x")
        progress.line("Collecting numpy")
        progress.end()
        assert stream.getvalue() == "STEP 1/4: FROM x\nCollecting numpy\n"


def test_what_a_failed_build_said_is_shown_after_the_bar(
    programs: Programs, app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs.add("podman", status=3)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with pytest.raises(builders.BuildError, match=r"(?s)^STEP 1/2: FROM x\nit goes wrong\npodman could not build"):
        build(ImageSpec(), "digits:1")
