"""`penstock shim`: programs that import another product get Penstock's compatible package."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from penstock._cli import main
from penstock._cli.shim import HOOK, VARIABLE, environment
from penstock._shim.names import INTEGRATIONS
from waiting import PATIENCE, until

KNOWN = ", ".join(INTEGRATIONS)
SHIM = [sys.executable, "-m", "penstock", "shim"]
SAME = "import pytriton.exceptions, penstock.compat.pytriton.exceptions as ours; print(pytriton.exceptions is ours)"


def environment_of(**more: str) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    # This interpreter's folder is first, so that `python` has Penstock.
    return {**known, "PATH": os.pathsep.join([os.path.dirname(sys.executable), known.get("PATH", "")]), **more}


def run(*command: str, folder: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, cwd=folder, env=environment_of(**more), check=False
    )


def shim(*command: str, folder: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    return run(*SHIM, "pytriton", "--", *command, folder=folder, **more)


def path_with(*folders: Path) -> str:
    """Returns a PYTHONPATH with these folders before those of this run."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.mark.parametrize("integration", INTEGRATIONS.items(), ids=INTEGRATIONS)
def test_all_names_lead_to_a_package(integration: tuple[str, str]) -> None:
    name, package = integration
    done = run(*SHIM, name, "--", "python", "-c", f"import sys, {name}, {package} as ours; print({name} is ours)")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_script_gets_the_same_modules_and_one_notice(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(f"{SAME}\nimport sys, subprocess\nsubprocess.run([sys.executable, '-c', {SAME!r}], check=True)\n")
    done = shim("python", str(script))
    assert (done.returncode, done.stdout) == (0, "True\nTrue\n"), done.stderr
    assert done.stderr == "penstock shim: pytriton is served by penstock.compat.pytriton in this program\n"


def test_imports_classes_and_pickles_share_modules(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import pickle\n"
        "import penstock.compat.pytriton.model_config as ours\n"
        "from pytriton.model_config import Tensor\n"
        "import pytriton.model_config.common, sys\n"
        "assert Tensor is ours.Tensor and isinstance(ours.Tensor(shape=(1,), dtype=bytes), Tensor)\n"
        "assert pytriton.model_config is ours\n"
        "assert pytriton.model_config.__spec__.name == 'penstock.compat.pytriton.model_config'\n"
        "config = pickle.dumps(pytriton.model_config.ModelConfig(max_batch_size=3), 0)\n"
        "assert b'penstock.compat.pytriton' in config\n"
        # Pickles with the script's module name can be read too.
        "named = config.replace(b'penstock.compat.pytriton', b'pytriton')\n"
        "print(type(pickle.loads(named)) is pytriton.model_config.ModelConfig)\n"
    )
    done = shim("python", str(script))
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_kserve_names_are_penstocks_modules() -> None:
    code = (
        "from kserve import Model, ModelServer, ModelRepository, model_server, logging, errors, constants, utils\n"
        "from kserve import InferRequest, InferInput, InferOutput, InferResponse\n"
        "from kserve.model import PredictorConfig, PredictorProtocol, InferenceVerb\n"
        "from kserve.utils.utils import get_predict_input, get_predict_response, generate_uuid\n"
        "import kserve.protocol.dataplane, penstock.compat.kserve as ours, penstock.compat.kserve.model_server\n"
        "assert kserve is ours and model_server is ours.model_server and Model is ours.Model\n"
        "print(kserve.protocol.dataplane.__name__, Model.__module__)"
    )
    done = run(*SHIM, "kserve", "--", "python", "-c", code)
    assert done.stdout == "penstock.compat.kserve.protocol.dataplane penstock.compat.kserve.model\n", done.stderr


def test_r9_d18_both_storage_names_are_penstocks_module() -> None:
    code = (
        "from kserve_storage import Storage, configure_logging, logger\n"
        "from kserve_storage.kserve_storage import Storage as inner\n"
        "from kserve.storage import Storage as old\n"
        "from kserve.storage.storage import Storage as older\n"
        "assert Storage is inner is old is older\n"
        "print(Storage.download(__import__('sys').prefix))"
    )
    done = run(*SHIM, "kserve,kserve_storage", "--", "python", "-c", code)
    assert Path(done.stdout.strip()).is_dir(), done.stderr


def test_modules_packages_and_console_scripts_are_shimmed(tmp_path: Path) -> None:
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "__init__.py").touch()
    (tmp_path / "app" / "__main__.py").write_text(SAME)
    script = tmp_path / "console"
    script.write_text(f"#!{sys.executable}\n{SAME}\n")
    script.chmod(0o755)
    for command in (["python", "-m", "app"], [str(script)], ["python", "app"]):
        done = shim(*command, folder=tmp_path)
        assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_multiprocessing_children_are_shimmed(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "def import_module(method):\n"
        "    import pytriton.exceptions\n"
        "    return method, pytriton.exceptions.__name__\n"
        "if __name__ == '__main__':\n"
        "    for method in ('spawn', 'fork', 'forkserver'):\n"
        "        with multiprocessing.get_context(method).Pool(1) as pool:\n"
        "            print(*pool.apply(import_module, (method,)))\n"
    )
    done = shim("python", str(script))
    name = "penstock.compat.pytriton.exceptions"
    assert done.stdout == f"spawn {name}\nfork {name}\nforkserver {name}\n", done.stderr


def test_installed_package_is_shadowed(tmp_path: Path) -> None:
    (tmp_path / "pytriton").mkdir()
    (tmp_path / "pytriton" / "__init__.py").write_text("print('the real one')")
    (tmp_path / "pytriton" / "only_real.py").touch()
    code = "import pytriton; print(pytriton.__name__)\nimport pytriton.only_real"
    done = shim("python", "-c", code, PYTHONPATH=path_with(tmp_path))
    assert done.stdout == "penstock.compat.pytriton\n"
    assert "ModuleNotFoundError: No module named 'pytriton.only_real'" in done.stderr


def test_find_spec_works_without_an_import() -> None:
    code = (
        "import sys, importlib.util as u; print(u.find_spec('pytriton').origin)\n"
        "assert 'pytriton' not in sys.modules\n"
        "print(u.find_spec('pytriton.nothing'), u.find_spec('pytritons'))"
    )
    done = shim("python", "-c", code)
    origin, others = done.stdout.splitlines()
    assert origin.endswith(os.path.join("penstock", "compat", "pytriton", "__init__.py")), done.stderr
    assert others == "None None"


def test_penstock_is_loaded_only_on_import() -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith(('penstock', 'numpy', 'pytriton'))])"
    done = shim("python", "-c", code)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_sitecustomize_of_the_user_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.custom = __file__\nvalue = 'loaded'\n")
    code = f"import sys, sitecustomize; print(sys.custom, sitecustomize.value); {SAME}"
    done = shim("python", "-c", code, PYTHONPATH=path_with(tmp_path))
    assert done.stdout == f"{tmp_path}/sitecustomize.py loaded\nTrue\n", done.stderr
    # A failing sitecustomize is reported as without the shim, and the shim still works.
    (tmp_path / "sitecustomize.py").write_text("1 / 0\n")
    done = shim("python", "-c", SAME, PYTHONPATH=path_with(tmp_path))
    assert done.stdout == "True\n"
    assert "ZeroDivisionError" in done.stderr


def test_import_path_is_unchanged(tmp_path: Path) -> None:
    code = "import sys; print(sys.path)"
    search_path = path_with(tmp_path)
    assert (
        shim("python", "-c", code, PYTHONPATH=search_path).stdout
        == run("python", "-c", code, PYTHONPATH=search_path).stdout
    )


def test_shims_can_be_nested() -> None:
    done = shim(*SHIM, "pytriton", "--", "python", "-c", f"import os; print(os.environ['PYTHONPATH']); {SAME}")
    path, same = done.stdout.splitlines()
    assert path.split(os.pathsep).count(str(HOOK)) == 1
    assert same == "True", done.stderr


def test_python_without_penstock_is_reported() -> None:
    # Only the standard library remains on the import path.
    bare = (
        "import os, sys\n"
        "home = os.path.dirname(os.__file__)\n"
        "sys.path[:] = [path for path in sys.path if path in (home, os.path.join(home, 'lib-dynload'))]\n"
        "import pytriton"
    )
    done = shim("python", "-c", bare)
    assert done.returncode == 1
    assert "ModuleNotFoundError: penstock shim: pytriton is served by penstock.compat.pytriton" in done.stderr
    assert f"install penstock for {sys.executable}" in done.stderr


def test_missing_dependency_of_an_integration_is_named(tmp_path: Path) -> None:
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "__init__.py").write_text("import not_installed_anywhere")
    environment = {"PYTHONPATH": path_with(HOOK, tmp_path), VARIABLE: "whole=half"}
    done = run("python", "-c", "import whole", **environment)
    assert "ModuleNotFoundError: No module named 'not_installed_anywhere'" in done.stderr


def test_arguments_input_output_and_status_are_the_programs() -> None:
    code = "import sys; print(sys.argv[1:], sys.stdin.read()); sys.exit(7)"
    done = subprocess.run(
        [*SHIM, "pytriton", "--", "python", "-c", code, "--", "-h", "shim"],
        input="in",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment_of(),
        check=False,
    )
    assert (done.returncode, done.stdout) == (7, "['--', '-h', 'shim'] in\n"), done.stderr


def test_first_dashes_are_optional() -> None:
    assert run(*SHIM, "pytriton", "python", "-c", "print(1)").stdout == "1\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1])
def test_signals_reach_the_program(number: signal.Signals) -> None:
    code = (
        "import signal, sys\n"
        f"signal.signal({int(number)}, lambda n, frame: sys.exit(40 + n))\n"
        "print('up', flush=True)\nwhile True: signal.pause()"
    )
    process = subprocess.Popen(
        [*SHIM, "pytriton", "--", "python", "-c", code], stdout=subprocess.PIPE, text=True, env=environment_of()
    )
    try:
        assert process.stdout
        assert until(process.stdout.readline, "the program to start") == "up\n"
        process.send_signal(number)
        assert process.wait(PATIENCE) == 40 + number
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        ((), 2, f"no name given; known names: {KNOWN}"),
        (("--", "python"), 2, f"no name given; known names: {KNOWN}"),
        (("pytriton",), 2, "give the command to run, for example: penstock shim pytriton -- python script.py"),
        (("pytriton", "--"), 2, "give the command to run, for example: penstock shim pytriton -- python script.py"),
        (
            ("tensorrt", "--", "python"),
            2,
            f"cannot stand in for 'tensorrt'; known names: {KNOWN}",
        ),
        (
            ("pytriton,a,b", "--", "python"),
            2,
            f"cannot stand in for 'a', 'b'; known names: {KNOWN}",
        ),
        (("pytriton", "--", "no-such-command"), 127, "no-such-command: there is no such command"),
        (("pytriton", "--", os.devnull), 126, f"{os.devnull}: Permission denied"),
    ],
)
def test_invalid_commands_are_rejected(
    arguments: tuple[str, ...], status: int, message: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main.main(["shim", *arguments]) == status
    assert f"penstock shim: error: {message}" in capfd.readouterr().err


def test_help_names_the_integrations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["shim", "--help"]) == 0
    output = capsys.readouterr().out
    assert output.startswith("usage: penstock shim NAME[,NAME] -- CMD")
    assert all(f"{name} " in output and package in output for name, package in INTEGRATIONS.items())
    assert main.main(["--help"]) == 0
    assert "shim" in capsys.readouterr().out


def test_previously_requested_names_are_preserved() -> None:
    variables = environment(["pytriton"], {VARIABLE: "other=some.package", "PYTHONPATH": f"/a:{HOOK}:/b", "HOME": "/h"})
    assert variables == {
        VARIABLE: "other=some.package,pytriton=penstock.compat.pytriton",
        "PYTHONPATH": f"{HOOK}:/a:/b",
        "HOME": "/h",
    }
