"""Settings of models with their origins."""

from __future__ import annotations

from typing import Any

from penstock import Batching, Pipeline, Processes, Step, Warmup, model
from penstock._model.option_types import ModelOptions
from penstock._model.settings import SETTINGS, settings_of
from penstock._spec.definition import Definition


def test_each_option_of_a_model_is_a_setting_or_describes_it() -> None:
    describing = {"name", "version", "description", "inputs", "outputs", "streams", "routes"}
    assert set(SETTINGS) | describing == set(ModelOptions.__annotations__)


def test_given_options_of_a_model_have_their_argument_as_origin() -> None:
    async def f(x: int) -> int:
        return x

    options: dict[str, Any] = {
        "instances": 2,
        "max_concurrency": 8,
        "max_queue": 9,
        "calls": ["g"],
        "check_shapes": False,
        "buckets": {"rows": [1, 2]},
        "warmup": Warmup([{"x": 1}], repeat=2, batch_sizes=[1, 8]),
    }
    for name, value in options.items():
        rows = {row.name: row for row in settings_of(model(f, **{name: value}), None).rows}
        assert rows.pop(name).origin == f"argument model({name}=)"
        assert {row.origin for row in rows.values()} == {"default"}
        given = {row.name: row.origin for row in settings_of(model(f, **{name: value}), "toy").rows if row.is_given}
        assert given == {name: "integration toy"}
    rows = {row.name: (row.text, row.value) for row in settings_of(model(f, **options), None).rows}
    assert rows["batching"] == ("off", None)
    assert rows["instances"] == ("2", 2)
    assert rows["calls"] == ("g", ["g"])
    assert rows["buckets"] == ("{'rows': [1.0, 2.0]}", {"rows": [1.0, 2.0]})
    assert rows["check_shapes"] == ("off", False)
    warmup = {"samples": 1, "repeat": 2, "batch_sizes": [1, 8]}
    assert rows["warmup"] == ("Warmup(samples=1, repeat=2, batch_sizes=(1, 8))", warmup)
    assert {row.name: row.text for row in settings_of(f, None).rows}["max_concurrency"] == "64"


def test_variables_of_processes_are_not_shown() -> None:
    given = model(abs_of, instances=Processes(2, env={"HF_TOKEN": "hidden"}), batching=Batching(max_size=64))
    rows = {row.name: row for row in settings_of(given, None).rows}
    assert rows["instances"].text == "Processes(count=2, env={'HF_TOKEN': '(set)'})"
    assert rows["instances"].value["env"] == {"HF_TOKEN": "(set)"}
    # The whole option was given, although its value is that of the default.
    assert (rows["batching"].text, rows["batching"].origin) == ("Batching(max_size=64)", "argument model(batching=)")


def abs_of(x: list[int]) -> list[int]:
    return [*map(abs, x)]


def test_pipelines_and_definitions_have_settings() -> None:
    pipeline = Pipeline("p", [Step("f", {"x": "x"}, {"y": "y"})], inputs=["x"], outputs=["y"], max_queue=7)
    assert [(row.name, row.text, row.origin) for row in settings_of(pipeline, None).rows] == [
        ("max_concurrency", "1024", "default"),
        ("max_queue", "7", "argument Pipeline(max_queue=)"),
    ]

    def f(x: int) -> int:
        return x

    definition = model(f, max_queue=7).definition()
    assert isinstance(definition, Definition)
    found = {row.name: (row.text, row.origin) for row in settings_of(definition, None).rows}
    assert found["max_queue"] == ("7", "definition")
    assert found["calls"] == ("any", "definition")
