# A chat for OpenAI's clients: answers questions with the page of Python's language reference that fits best.

from collections.abc import Iterator
from pydoc_data.topics import topics

from sklearn.feature_extraction.text import TfidfVectorizer

from penstock import model, openai

words = TfidfVectorizer(stop_words="english", sublinear_tf=True)
pages = words.fit_transform(topics.values())


@model
def manual(question: str) -> Iterator[str]:
    """Yields the lines of the page that shares most words with the question."""
    page = (pages @ words.transform([question]).T).toarray().argmax()
    yield from [*topics.values()][page].splitlines(keepends=True)


api = openai.routes(openai.Chat(manual, template=lambda messages: messages[-1]["content"]))
