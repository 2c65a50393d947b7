# Pure Python that keeps a core busy: two processes, each with its own interpreter lock.

import re
from difflib import get_close_matches
from pydoc_data.topics import topics

from penstock import Processes, model

known = sorted(set(re.findall(r"[a-z]{3,}", " ".join(topics.values()))))


@model(instances=Processes(2))
def spelling(word: str) -> list[str]:
    """Returns known words that look like this one, the closest first."""
    return get_close_matches(word, known)
