import io
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.uploads import MAX_BYTES, MAX_DIM, MAX_TOKENS, UploadError, read_matrix


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def header(shape: str, descr: str = "'<f8'", tail: bytes = b"") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + tail


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int16, np.uint8, bool, ">f8"])
def test_npy_comes_back_as_float64(dtype: object) -> None:
    array = np.arange(12).reshape(4, 3).astype(dtype)
    read = read_matrix("a.npy", npy(array))
    assert read.dtype == np.float64
    np.testing.assert_array_equal(read, array.astype(np.float64))


def test_one_axis_is_a_column_and_the_largest_is_taken() -> None:
    assert read_matrix("A.NPY", npy(np.arange(5.0))).shape == (5, 1)
    assert read_matrix("a.npy", npy(np.zeros((MAX_TOKENS, MAX_DIM)))).shape == (MAX_TOKENS, MAX_DIM)
    np.testing.assert_array_equal(read_matrix("f.npy", npy(np.asfortranarray(np.eye(3)))), np.eye(3))


@pytest.mark.parametrize("text", ["a,b\n1,2\n3,4\n", "1;2\n3;4", "1\t2\r\n3\t4\r\n", "\ufeff1, 2\n\n 3 ,4\n\n"])
def test_csv_with_and_without_heading(text: str) -> None:
    np.testing.assert_array_equal(read_matrix("a.csv", text.encode()), [[1, 2], [3, 4]])


BAD = [
    ("a.txt", b"1,2\n3,4", "not a .csv or .npy file"),
    ("noext", b"1,2\n3,4", "not a .csv or .npy file"),
    ("a.csv", b"", "is empty"),
    ("a.csv", b"\n \n", "is empty"),
    ("a.csv", b"1,2\n3,x\n", "holds 'x' in row 2"),
    ("a.csv", b"a,b\nc,d\n", "one token|1 tokens|holds"),
    ("a.csv", b"1,2\n3\n", "1 values in row 2 and 2 in the first"),
    ("a.csv", b"1,2\n3,nan\n", "NaN or infinity in row 2, column 2"),
    ("a.csv", b"1,2\n-inf,1\n", "NaN or infinity in row 2, column 1"),
    ("a.csv", b"1,2\n", "2 tokens or more"),
    ("a.csv", b"1,\n2,\n", "only numbers are allowed"),
    ("a.csv", b"1\n" * (MAX_TOKENS + 1), "4097 × 1"),
    ("a.csv", (b"1," * MAX_DIM + b"1\n") * 2, "2 × 1025"),
    ("a.csv", b"\xff\xfe1", "not UTF-8"),
    ("a.csv", b"1e300,1\n2,3", "beyond 1e30"),
    ("a.csv", b"1,2\n-1.1e30,3", "beyond 1e30"),
    ("a.npy", npy(np.array([[1e39], [1.0]])), "beyond 1e30"),
    ("a.npy", b"", "is empty"),
    ("a.npy", b"1,2\n3,4\n", "no NPY header"),
    ("a.npy", npy(np.array([[1, "x"]], dtype=object)), "Python objects"),
    ("a.npy", npy(np.array([{}, {}], dtype=object)), "Python objects"),
    ("a.npy", npy(np.ones((3, 2), complex)), "complex numbers"),
    ("a.npy", npy(np.array(["a", "b"])), "only real numbers"),
    ("a.npy", npy(np.zeros(3, dtype=[("x", "f8")])), "only real numbers"),
    ("a.npy", npy(np.zeros(3, "datetime64[s]")), "only real numbers"),
    ("a.npy", npy(np.zeros((2, 2, 2))), "3 axes"),
    ("a.npy", npy(np.float64(1)), "0 axes"),
    ("a.npy", npy(np.zeros((1, 5))), "2 tokens or more"),
    ("a.npy", npy(np.zeros((5, 0))), "2 tokens or more"),
    ("a.npy", npy(np.zeros((4097, 1), np.uint8)), "4097 × 1"),
    ("a.npy", npy(np.array([[0, np.nan], [1, 1]])), "row 1, column 2"),
    ("a.npy", npy(np.zeros((3, 3)))[:-1], "ends early"),
    ("a.npy", header("(-4, 2)"), "2 tokens or more"),
    ("a.npy", header("(10**30,)"), "NPY header"),
    ("a.npy", header("(" * 500), "NPY header"),
    ("a.npy", b"\x93NUMPY\x03\x00\xff\xff\xff\xff", "NPY header"),
]


@pytest.mark.parametrize(("name", "data", "words"), BAD)
def test_a_wrong_file_gets_one_sentence(name: str, data: bytes, words: str) -> None:
    with pytest.raises(UploadError, match=words) as caught:
        read_matrix(name, data)
    message = str(caught.value)
    assert message.startswith("The upload '")
    assert message.endswith(".")
    assert "\n" not in message
    assert caught.value.field == "upload"


def test_a_hostile_header_costs_nothing() -> None:
    tracemalloc.start()
    for shape in ("(4096, 1024)", "(1000000000000, 1000)", "(9223372036854775807,)"):
        with pytest.raises(UploadError):
            read_matrix("a.npy", header(shape))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2**20


def test_too_many_bytes_and_long_names() -> None:
    with pytest.raises(UploadError, match="at most"):
        read_matrix("a.csv", b"1" * (MAX_BYTES + 1))
    with pytest.raises(UploadError) as caught:
        read_matrix("x" * 5000 + ".exe", b"1")
    assert len(str(caught.value)) < 200


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for name, content in (("a.csv", data), ("a.npy", data), ("a.npy", b"\x93NUMPY\x01\x00" + data)):
        try:
            matrix = read_matrix(name, content)
        except UploadError:
            continue
        assert matrix.ndim == 2
        assert np.isfinite(matrix).all()
