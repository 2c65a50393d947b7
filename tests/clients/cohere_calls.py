"""Calls the model `rank` with Cohere's clients of both versions, and prints the responses as JSON.

Run by an interpreter that has Cohere's client: `python cohere_calls.py URL`.
"""

from __future__ import annotations

import json
import sys

import cohere

DOCUMENTS = ["one a", "a a a", "none", "a a"]


def main(url: str) -> None:
    first = cohere.Client(api_key="-", base_url=url)
    second = cohere.ClientV2(api_key="-", base_url=url)
    described = first.rerank(
        model="rank", query="a", documents=[{"text": text} for text in DOCUMENTS], top_n=2, return_documents=True
    )
    plain = second.rerank(model="rank", query="a", documents=DOCUMENTS, max_tokens_per_doc=1)
    try:
        second.rerank(model="rank", query="a", documents=DOCUMENTS, top_n=0)
        refused = "not refused"
    except cohere.BadRequestError as error:
        refused = error.body["error"]["param"]
    versions = [one.meta.api_version.version for one in (described, plain) if one.meta and one.meta.api_version]
    results = {
        "first": [
            [one.index, one.relevance_score, one.document.text if one.document else None] for one in described.results
        ],
        "second": [[one.index, one.relevance_score] for one in plain.results],
        "versions": versions,
        "refused": refused,
    }
    print(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
