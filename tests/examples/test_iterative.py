"""The iterative example: texts of many clients in one step are continued as each would be alone."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import numpy as np
import pytest

from penstock import HandlerError, InvalidInput
from waiting import PATIENCE, at_once

testing = pytest.importorskip("penstock.testing")

Load = Callable[[str], ModuleType]


def test_scores_do_not_depend_on_other_rows(example: Load) -> None:
    network = example("network")
    texts = [network.tokens_of(text) for text in ("a", "some text", "Another, of its own length")]
    alone = [network.Network(1).forward(tokens, [0] * len(tokens), range(len(tokens)))[-1] for tokens in texts]
    # All at once, in slots in another order; then the same one token a step.
    slots = [2, 0, 1]
    together = network.Network(3)
    tokens = [token for text in texts for token in text]
    places = [place for text in texts for place in range(len(text))]
    scores = together.forward(tokens, [slot for slot, text in zip(slots, texts, strict=True) for _ in text], places)
    ends = np.cumsum([len(text) for text in texts]) - 1
    np.testing.assert_allclose(scores[ends], alone, rtol=1e-4, atol=1e-4)
    stepwise = network.Network(1)
    steps = [stepwise.forward([token], [0], [place])[0] for place, token in enumerate(texts[1])]
    np.testing.assert_allclose(steps[-1], alone[1], rtol=1e-4, atol=1e-4)


def test_texts_of_many_clients_are_continued_and_slots_are_freed(example: Load) -> None:
    app, characters = example("app"), example("network").CHARACTERS
    with testing.Client(app.Generate) as client:

        def read(number: int) -> str:
            stream = client.stream("Generate", {"text": [[f"Text {number}"]]}, parameters={"length": 1 + number})
            return "".join(chunk["piece"][0, 0].decode() for chunk in stream)

        # More than there are slots, so slots are used again.
        answers = [
            answer.result(PATIENCE) for answer in at_once([lambda number=number: read(number) for number in range(40)])
        ]
        assert [len(answer) for answer in answers] == [*range(1, 41)]
        assert set("".join(answers)) <= set(characters)
        assert read(5) == read(5)


def test_lengths_beyond_the_cache_are_refused_alone(example: Load) -> None:
    with testing.Client(example("app").Generate) as client:
        for length in (0, 256, "x"):
            with pytest.raises(InvalidInput, match=f"length is {length!r}, expected 1 to 256 together with the text"):
                client.stream("Generate", {"text": [["a"]]}, parameters={"length": length})
        with pytest.raises(HandlerError, match="row 1: length is 255"):
            list(client.stream("Generate", {"text": [["a"], ["ab"]]}, parameters={"length": 255}))


def test_generators_give_the_same_text(example: Load) -> None:
    app = example("app")
    with testing.Client(app.Generate, app.GenerateAlone) as client:
        parameters = {"length": 3}
        together = client.stream("Generate", {"text": [["Once upon"]]}, parameters=parameters)
        alone = client.stream("GenerateAlone", {"text": ["Once upon"]}, parameters=parameters)
        assert [chunk["piece"].item() for chunk in together] == [chunk["piece"].item() for chunk in alone]
