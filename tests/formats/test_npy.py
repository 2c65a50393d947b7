"""npy and npz bodies, as numpy itself writes and reads them."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .conftest import DATATYPES, Ask

NPY, NPZ = "application/x-npy", "application/x-npz"
DTYPES = dict(zip(DATATYPES, ["b1", "u1", "u2", "u4", "u8", "i1", "i2", "i4", "i8", "f2", "f4", "f8"], strict=True))


def npy(array: Any, **options: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


def npz(compressed: bool = False, **arrays: Any) -> bytes:
    file = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(file, **arrays)
    return file.getvalue()


def loaded(body: bytes) -> Any:
    """What numpy reads, which may not be a pickle."""
    return np.load(io.BytesIO(body), allow_pickle=False)


def error(answer: Any, status: int = 400) -> str:
    assert answer.status == status, answer.body[:300]
    assert answer.headers["content-type"] == "application/json"
    return str(answer.error())


def sample(datatype: str) -> np.ndarray[Any, Any]:
    return (np.arange(12).reshape(2, 2, 3) - (0 if "U" in datatype else 3)).astype(DTYPES[datatype])


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("order", ["little", "big", "fortran"])
def test_every_datatype_comes_back(ask: Ask, datatype: str, order: str) -> None:
    array = sample(datatype)
    sent = {"little": array, "big": array.astype(array.dtype.newbyteorder(">")), "fortran": np.asfortranarray(array)}
    body = npy(sent[order])
    assert (order == "fortran") == (b"'fortran_order': True" in body)
    answer = ask(f"ident_{datatype}", body, NPY)
    assert (answer.status, answer.headers["content-type"]) == (200, NPY), answer.body
    found = loaded(answer.body)
    assert found.dtype == array.dtype
    assert (found == array).all()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_of_the_format(ask: Ask, version: tuple[int, int]) -> None:
    file = io.BytesIO()
    np.lib.format.write_array(file, sample("FP32"), version=version)
    assert (loaded(ask("ident_FP32", file.getvalue(), NPY).body) == sample("FP32")).all()


def test_brain_floats_are_two_bytes_of_nothing_in_particular(ask: Ask) -> None:
    array = sample("FP32").astype(ml_dtypes.bfloat16)
    answer = ask("ident_BF16", npy(array), NPY)
    assert answer.status == 200, answer.body
    assert (loaded(answer.body).view(ml_dtypes.bfloat16) == array).all()


@pytest.mark.parametrize("kind", ["S", "U", ">U"])
@pytest.mark.parametrize("name", ["ident_BYTES", "ident_text"])
def test_strings(ask: Ask, name: str, kind: str) -> None:
    words = [["", "abc"], ["x" * 40, "é" if "U" in kind else "e"]]
    array = np.array(words).astype(f"{kind}42")
    answer = ask(name, npy(array), NPY)
    assert answer.status == 200, answer.body
    found = loaded(answer.body)
    assert found.dtype.kind == ("U" if name == "ident_text" else "S")
    assert np.char.decode(found, "utf-8").tolist() == words if found.dtype.kind == "S" else found.tolist() == words


def test_a_scalar_and_no_rows(ask: Ask) -> None:
    assert loaded(ask("scalar", npy(np.float32(3)), NPY).body) == 6
    found = loaded(ask("ident_FP32", npy(np.zeros((0, 2, 3), np.float32)), NPY).body)
    assert found.shape == (0, 2, 3)


def test_large_arrays(ask: Ask) -> None:
    array = np.random.default_rng(0).random((8, 2, 3), np.float32)
    assert (loaded(ask("ident_FP32", npy(array), NPY).body) == array).all()


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_has_tensors_by_name(ask: Ask, compressed: bool) -> None:
    body = npz(
        compressed,
        n=np.array([[1], [2]]),
        a=np.array([[1, 2], [3, 4]], np.float32),
        words=np.array([["a", "é"], ["", "b"]]),
    )
    answer = ask("mixed", body, NPZ)
    assert (answer.status, answer.headers["content-type"]) == (200, NPZ), answer.body
    found = loaded(answer.body)
    assert sorted(found) == ["same", "sum"]
    assert found["sum"].tolist() == [[4], [9]]
    assert found["same"].tolist() == [["a", "é"], ["", "b"]]


def test_an_optional_input_may_be_left_out(ask: Ask) -> None:
    body = npz(n=np.array([[1]]), a=np.array([[1, 2]], np.float32))
    assert loaded(ask("mixed", body, NPZ).body)["same"].tolist() == [["", "é"]]


def test_the_query_has_what_the_format_has_no_place_for(ask: Ask) -> None:
    body = npz(n=np.array([[1]]), a=np.array([[1, 2]], np.float32))
    assert loaded(ask("mixed", body, NPZ, query="output=sum&unknown=1", accept=NPY).body).tolist() == [[4]]
    assert sorted(loaded(ask("mixed", body, NPZ, query="output=sum").body)) == ["sum"]
    parameters = "parameters=%7B%22factor%22%3A%202.5%7D"
    one = npy(np.ones(1, np.float32))
    assert loaded(ask("told", one, NPY, query=parameters).body).tolist() == [2.5]
    assert ask("told", one, NPY, query="id=a+b", accept="application/json").json()["id"] == "a b"


@pytest.mark.parametrize(
    "accept", ["application/json", "application/octet-stream", "text/plain, application/json;q=0.1"]
)
def test_an_answer_in_the_protocols_own_form(ask: Ask, accept: str) -> None:
    answer = ask("ident_FP32", npy(sample("FP32")), NPY, accept=accept)
    assert answer.headers["content-type"] == "application/json"
    assert answer.json()["outputs"][0]["data"] == sample("FP32").ravel().tolist()


def test_json_may_be_answered_in_npy(ask: Ask) -> None:
    body = b'{"inputs":[{"name":"x","shape":[],"datatype":"FP32","data":[3]}]}'
    answer = ask("scalar", body, "application/json", accept=NPY)
    assert loaded(answer.body) == 6


@pytest.mark.trap("T4")
def test_t4_the_protocols_header_beats_the_content_type(ask: Ask) -> None:
    body = b'{"inputs":[{"name":"x","shape":[],"datatype":"FP32","data":[3]}]}'
    answer = ask("scalar", body, NPY, Inference_Header_Content_Length=str(len(body)))
    assert answer.json()["outputs"][0]["data"] == [6]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "input 'x': not npy data, as numpy.save writes it"),
        (b"{}", "input 'x': not npy data, as numpy.save writes it"),
        (npy(np.zeros((1, 2, 3), "f4"))[:40], "input 'x': not npy data, as numpy.save writes it"),
        (
            npy(np.zeros((1, 2, 3), "f4"))[:-1],
            "input 'x': got 23 bytes, expected 24 for dtype '<f4' and shape [1, 2, 3]",
        ),
        (npy(np.zeros((1, 2, 3), "f4")) + b"!", "input 'x': got 25 bytes, expected 24 for dtype '<f4' and shape"),
        (npy(np.zeros((1, 2, 3), "f8")), "input 'x' has datatype FP64, model 'ident_FP32' expects FP32"),
        (npy(np.zeros((1, 3), "f4")), "input 'x' has shape [1, 3], model 'ident_FP32' expects [-1, 2, 3]"),
        (npy(np.zeros((9, 2, 3), "f4")), "input 'x' has a batch of 9 rows, model 'ident_FP32' accepts at most 8"),
        (npy(np.zeros((1, 2, 3), "c8")), "input 'x' has dtype '<c8', expected the dtype of a datatype"),
        (npy(np.zeros((1, 2, 3), "M8[s]")), "input 'x': unknown dtype \"<M8[s]\""),
        (npy(np.zeros(1, [("a", "f4")])), "input 'x': the npy array has fields, expected elements of one dtype"),
        (npy(np.zeros((1, 2, 3), "f4")).replace(b"'descr'", b"'other'"), "input 'x': the npy header is broken"),
        (
            npy(np.zeros((1, 2, 3), "f4")).replace(b"'<f4'", b"'<f0'"),
            "input 'x': dtype '<f0' has elements without width",
        ),
        (npy(np.zeros((1, 2, 3), "f4")).replace(b"(1, 2", b"(-1,2"), "input 'x': the npy header is broken"),
    ],
)
def test_refusals(ask: Ask, body: bytes, text: str) -> None:
    assert error(ask("ident_FP32", body, NPY)).startswith(text)


def test_pickles_are_never_read(ask: Ask) -> None:
    body = npy(np.array([["a", "b"]], object), allow_pickle=True)
    expected = (
        "input 'x': an array of objects is a pickle, which is never read: send strings of one width "
        "(dtype 'S' or 'U'), or another format"
    )
    assert error(ask("ident_BYTES", body, NPY)) == expected


def test_a_claim_of_size_takes_no_memory(ask: Ask) -> None:
    body = npy(np.zeros((1, 2, 3), "f4")).replace(b"(1, 2, 3), }      ", b"(8, 1099511627776)}")
    assert "expects [-1, 2, 3]" in error(ask("ident_FP32", body, NPY))
    text = npy(np.array([["a", "b"]], "S1")).replace(b"'|S1'", b"'|S9'").replace(b"(1, 2), }      ", b"(8, 2), }      ")
    assert error(ask("ident_BYTES", text, NPY)) == (
        "input 'x': got 2 bytes, expected 144 for dtype '|S9' and shape [8, 2]"
    )


def test_models_and_answers_that_are_not_one_array(ask: Ask) -> None:
    assert error(ask("mixed", npy(np.zeros(1)), NPY)) == (
        "an npy request is for models with one input, model 'mixed' has 3: send npz"
    )
    body = npz(n=np.array([[1]]), a=np.array([[1, 2]], np.float32))
    assert error(ask("mixed", body, NPZ, accept=NPY)) == (
        "an npy answer is one output, the request asks for 2: name one in the query, as in ?output=NAME"
    )
    assert "unexpected inference output 'zzz'" in error(ask("mixed", body, NPZ, query="output=zzz"))
    assert error(ask("mixed", body, NPZ, query="output=sum&output=sum")) == "output 'sum' is requested twice"
    message = error(ask("mixed", body, NPZ, query="parameters=%5B%5D"))
    assert message == "'parameters' of the query at byte 0: expected an object of 'parameters'"
    message = error(ask("mixed", body, NPZ, query="parameters=%7B%7Dx"))
    assert message == "'parameters' of the query at byte 2: expected nothing after the object of 'parameters'"


def test_values_that_numpys_strings_cannot_hold(ask: Ask) -> None:
    body = json.dumps({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}).encode()
    assert error(ask("odd", body, None, accept=NPZ)) == (
        "element 0 of output 'y' ends with a zero byte, which numpy's strings cannot hold: accept another format"
    )
    bad = npy(np.array([["a", "b"]])).replace(b"a\0\0\0", b"\0\xd8\0\0")
    assert error(ask("ident_text", bad, NPY)) == "input 'x': element 0 has 0xd800, which is not a character"
    not_text = npy(np.array([[b"\xff", b"b"]]))
    assert error(ask("ident_text", not_text, NPY)) == "input 'x': element 0 is not valid UTF-8 text"


def zipped(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return file.getvalue()


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "the npz archive cannot be read: it is not a zip archive, or a broken one"),
        (b"x" * 100, "the npz archive cannot be read: it is not a zip archive, or a broken one"),
        (npz(n=np.array([[1]]))[:-30], "the npz archive cannot be read: it is not a zip archive, or a broken one"),
        (zipped({"n.txt": b""}), "the npz archive has an entry 'n.txt', expected names that end with '.npy'"),
        (zipped({"../z.npy": b""}), "unexpected input '../z' for model 'mixed', expected 'a', 'n', 'words'"),
        (zipped({"n.npy": npy(np.array([[1]]))}), "input 'a' is missing, model 'mixed' expects 'a', 'n', 'words'"),
        (zipped({"n.npy": b"{}"}), "input 'n': not npy data, as numpy.save writes it"),
        (zipped({"n.npy": npy(np.array([[1]]))}, zipfile.ZIP_LZMA), "the npz archive cannot be read: it needs what"),
    ],
)
def test_archives_that_are_refused(ask: Ask, body: bytes, text: str) -> None:
    assert error(ask("mixed", body, NPZ)).startswith(text)


def test_a_broken_entry_is_noticed(ask: Ask) -> None:
    body = bytearray(npz(n=np.array([[1]]), a=np.array([[1, 2]], np.float32)))
    at = body.index(np.array([1, 2], np.float32).tobytes())
    body[at] ^= 1
    assert error(ask("mixed", bytes(body), NPZ)) == "the npz archive is broken"


def test_an_archive_is_no_bomb(ask: Ask) -> None:
    content = npy(np.zeros((8, 2, 3), np.float32)) + bytes(200 << 20)
    by_ratio = error(ask("ident_FP32", zipped({"x.npy": content}), NPZ), 413)
    assert by_ratio == "the request's body inflates to more than 100 times its size, which is not accepted"
