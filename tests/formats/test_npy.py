"""npy and npz bodies, as numpy itself writes and reads them."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from .conftest import DATATYPES, Infer

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


def load(body: bytes) -> Any:
    """The array or archive that numpy reads, without pickles."""
    return np.load(io.BytesIO(body), allow_pickle=False)


def error(response: Any, status: int = 400) -> str:
    assert response.status == status, response.body[:300]
    assert response.headers["content-type"] == "application/json"
    return str(response.error())


def sample(datatype: str) -> np.ndarray[Any, Any]:
    return (np.arange(12).reshape(2, 2, 3) - (0 if "U" in datatype else 3)).astype(DTYPES[datatype])


@pytest.mark.parametrize("datatype", DATATYPES)
@pytest.mark.parametrize("order", ["little", "big", "fortran"])
def test_every_datatype_round_trips(infer: Infer, datatype: str, order: str) -> None:
    array = sample(datatype)
    encodings = {
        "little": array,
        "big": array.astype(array.dtype.newbyteorder(">")),
        "fortran": np.asfortranarray(array),
    }
    body = npy(encodings[order])
    assert (order == "fortran") == (b"'fortran_order': True" in body)
    response = infer(f"ident_{datatype}", body, NPY)
    assert (response.status, response.headers["content-type"]) == (200, NPY), response.body
    result = load(response.body)
    assert result.dtype == array.dtype
    assert (result == array).all()


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_npy_version_is_read(infer: Infer, version: tuple[int, int]) -> None:
    file = io.BytesIO()
    np.lib.format.write_array(file, sample("FP32"), version=version)
    assert (load(infer("ident_FP32", file.getvalue(), NPY).body) == sample("FP32")).all()


def test_bfloat16_is_sent_as_two_byte_voids(infer: Infer) -> None:
    array = sample("FP32").astype(ml_dtypes.bfloat16)
    response = infer("ident_BF16", npy(array), NPY)
    assert response.status == 200, response.body
    assert (load(response.body).view(ml_dtypes.bfloat16) == array).all()


@pytest.mark.parametrize("string_kind", ["S", "U", ">U"])
@pytest.mark.parametrize("name", ["ident_BYTES", "ident_text"])
def test_strings_round_trip(infer: Infer, name: str, string_kind: str) -> None:
    words = [["", "abc"], ["x" * 40, "é" if "U" in string_kind else "e"]]
    array = np.array(words).astype(f"{string_kind}42")
    response = infer(name, npy(array), NPY)
    assert response.status == 200, response.body
    result = load(response.body)
    assert result.dtype.kind == ("U" if name == "ident_text" else "S")
    assert np.char.decode(result, "utf-8").tolist() == words if result.dtype.kind == "S" else result.tolist() == words


def test_scalar_and_empty_arrays_round_trip(infer: Infer) -> None:
    assert load(infer("scalar", npy(np.float32(3)), NPY).body) == 6
    result = load(infer("ident_FP32", npy(np.zeros((0, 2, 3), np.float32)), NPY).body)
    assert result.shape == (0, 2, 3)


def test_large_arrays_round_trip(infer: Infer) -> None:
    array = np.random.default_rng(0).random((8, 2, 3), np.float32)
    assert (load(infer("ident_FP32", npy(array), NPY).body) == array).all()


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_maps_tensors_by_name(infer: Infer, compressed: bool) -> None:
    body = npz(
        compressed,
        n=np.array([[1], [2]]),
        a=np.array([[1, 2], [3, 4]], np.float32),
        words=np.array([["a", "é"], ["", "b"]]),
    )
    response = infer("mixed", body, NPZ)
    assert (response.status, response.headers["content-type"]) == (200, NPZ), response.body
    result = load(response.body)
    assert sorted(result) == ["same", "sum"]
    assert result["sum"].tolist() == [[4], [9]]
    assert result["same"].tolist() == [["a", "é"], ["", "b"]]


def test_optional_input_may_be_omitted(infer: Infer) -> None:
    body = npz(n=np.array([[1]]), a=np.array([[1, 2]], np.float32))
    assert load(infer("mixed", body, NPZ).body)["same"].tolist() == [["", "é"]]


def test_query_sets_id_outputs_and_parameters(infer: Infer) -> None:
    body = npz(n=np.array([[1]]), a=np.array([[1, 2]], np.float32))
    assert load(infer("mixed", body, NPZ, query="output=sum&unknown=1", accept=NPY).body).tolist() == [[4]]
    assert sorted(load(infer("mixed", body, NPZ, query="output=sum").body)) == ["sum"]
    parameters = "parameters=%7B%22factor%22%3A%202.5%7D"
    body_of_one = npy(np.ones(1, np.float32))
    assert load(infer("scaled", body_of_one, NPY, query=parameters).body).tolist() == [2.5]
    assert infer("scaled", body_of_one, NPY, query="id=a+b", accept="application/json").json()["id"] == "a b"


@pytest.mark.parametrize(
    "accept", ["application/json", "application/octet-stream", "text/plain, application/json;q=0.1"]
)
def test_protocol_response_is_returned_if_accepted(infer: Infer, accept: str) -> None:
    response = infer("ident_FP32", npy(sample("FP32")), NPY, accept=accept)
    assert response.headers["content-type"] == "application/json"
    assert response.json()["outputs"][0]["data"] == sample("FP32").ravel().tolist()


def test_npy_response_to_a_json_request(infer: Infer) -> None:
    body = b'{"inputs":[{"name":"x","shape":[],"datatype":"FP32","data":[3]}]}'
    response = infer("scalar", body, "application/json", accept=NPY)
    assert load(response.body) == 6


@pytest.mark.trap("T4")
def test_t4_protocol_header_overrides_the_content_type(infer: Infer) -> None:
    body = b'{"inputs":[{"name":"x","shape":[],"datatype":"FP32","data":[3]}]}'
    response = infer("scalar", body, NPY, Inference_Header_Content_Length=str(len(body)))
    assert response.json()["outputs"][0]["data"] == [6]


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
def test_invalid_npy_bodies_are_rejected(infer: Infer, body: bytes, text: str) -> None:
    assert error(infer("ident_FP32", body, NPY)).startswith(text)


def test_pickles_are_rejected(infer: Infer) -> None:
    body = npy(np.array([["a", "b"]], object), allow_pickle=True)
    expected = (
        "input 'x': an array of objects is a pickle, which is never read: send strings of one width "
        "(dtype 'S' or 'U'), or another format"
    )
    assert error(infer("ident_BYTES", body, NPY)) == expected


def test_declared_size_allocates_no_memory(infer: Infer) -> None:
    body = npy(np.zeros((1, 2, 3), "f4")).replace(b"(1, 2, 3), }      ", b"(8, 1099511627776)}")
    assert "expects [-1, 2, 3]" in error(infer("ident_FP32", body, NPY))
    text = npy(np.array([["a", "b"]], "S1")).replace(b"'|S1'", b"'|S9'").replace(b"(1, 2), }      ", b"(8, 2), }      ")
    assert error(infer("ident_BYTES", text, NPY)) == (
        "input 'x': got 2 bytes, expected 144 for dtype '|S9' and shape [8, 2]"
    )


def test_npy_requires_one_input_and_one_output(infer: Infer) -> None:
    assert error(infer("mixed", npy(np.zeros(1)), NPY)) == (
        "an npy request is for models with one input, model 'mixed' has 3: send npz"
    )
    body = npz(n=np.array([[1]]), a=np.array([[1, 2]], np.float32))
    assert error(infer("mixed", body, NPZ, accept=NPY)) == (
        "an npy answer is one output, the request asks for 2: name one in the query, as in ?output=NAME"
    )
    assert "unexpected inference output 'zzz'" in error(infer("mixed", body, NPZ, query="output=zzz"))
    assert error(infer("mixed", body, NPZ, query="output=sum&output=sum")) == "output 'sum' is requested twice"
    message = error(infer("mixed", body, NPZ, query="parameters=%5B%5D"))
    assert message == "'parameters' of the query at byte 0: expected an object of 'parameters'"
    message = error(infer("mixed", body, NPZ, query="parameters=%7B%7Dx"))
    assert message == "'parameters' of the query at byte 2: expected nothing after the object of 'parameters'"


def test_strings_that_numpy_cannot_hold_are_rejected(infer: Infer) -> None:
    body = json.dumps({"inputs": [{"name": "x", "shape": [1], "datatype": "FP32", "data": [1]}]}).encode()
    assert error(infer("unencodable", body, None, accept=NPZ)) == (
        "element 0 of output 'y' ends with a zero byte, which numpy's strings cannot hold: accept another format"
    )
    bad = npy(np.array([["a", "b"]])).replace(b"a\0\0\0", b"\0\xd8\0\0")
    assert error(infer("ident_text", bad, NPY)) == "input 'x': element 0 has 0xd800, which is not a character"
    not_text = npy(np.array([[b"\xff", b"b"]]))
    assert error(infer("ident_text", not_text, NPY)) == "input 'x': element 0 is not valid UTF-8 text"


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
def test_invalid_archives_are_rejected(infer: Infer, body: bytes, text: str) -> None:
    assert error(infer("mixed", body, NPZ)).startswith(text)


def test_corrupt_archive_entry_is_rejected(infer: Infer) -> None:
    body = bytearray(npz(n=np.array([[1]]), a=np.array([[1, 2]], np.float32)))
    offset = body.index(np.array([1, 2], np.float32).tobytes())
    body[offset] ^= 1
    assert error(infer("mixed", bytes(body), NPZ)) == "the npz archive is broken"


def test_decompression_bomb_is_rejected(infer: Infer) -> None:
    content = npy(np.zeros((8, 2, 3), np.float32)) + bytes(200 << 20)
    message = error(infer("ident_FP32", zipped({"x.npy": content}), NPZ), 413)
    assert message == "the request's body inflates to more than 100 times its size, which is not accepted"
