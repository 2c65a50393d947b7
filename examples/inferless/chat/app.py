"""Streams words. Pydantic classes declare inputs and outputs."""

from typing import List, Optional

import inferless
from pydantic import BaseModel, Field


@inferless.request
class Request(BaseModel):
    prompt: str = Field(default="Where is the cat?")
    words: Optional[int] = 5
    stop: List[str] = []


@inferless.response
class Response(BaseModel):
    word: str = Field(default="under")


@inferless.config()
class Config(BaseModel):
    is_streaming_output: bool = True


class InferlessPythonModel:
    def initialize(self):
        self.answer = ["the", "cat", "is", "under", "the", "table"]

    def infer(self, request: Request, stream_output_handler):
        for word in self.answer[: request.words]:
            if word in request.stop:
                break
            stream_output_handler.send_streamed_output({"word": word})
        stream_output_handler.finalise_streamed_output()
