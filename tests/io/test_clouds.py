"""Tables of numbers: delimiters, headers, and what the columns mean."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from bitr.errors import InputError
from bitr.io import Geometry, read
from tests.io.samples import cloud, table

POINTS = np.array([[1.5, 2, 3], [4, -5e-1, 6], [7, 8, 0], [1, 1, 1]])


def read_text(tmp_path, text: str, suffix: str = ".txt") -> Geometry:
    path = tmp_path / f"table{suffix}"
    path.write_bytes(text.encode())
    return read(path)


def text_of(rows: np.ndarray, delimiter: str = " ") -> str:
    return "\n".join(delimiter.join(repr(v) for v in row) for row in rows.tolist()) + "\n"


@pytest.mark.parametrize("delimiter", [" ", "\t", ",", ";", "|", ", ", "   "])
@pytest.mark.parametrize("suffix", [".txt", ".csv", ".xyz", ".asc", ".pts"])
def test_any_delimiter_in_any_text_file(delimiter, suffix, tmp_path):
    assert_array_equal(read_text(tmp_path, text_of(POINTS, delimiter), suffix).points, POINTS)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("# a comment\n\n", "\n\n"),
        ("\ufeff", ""),
        ("// made elsewhere\n% and there\n", "# the end\n"),
        ("4\n", ""),
        ("x y z\n", ""),
        ('"X","Y","Z"\n', ""),
        ("easting northing height\n", ""),
    ],
)
def test_comments_counts_and_names_are_no_points(before, after, tmp_path):
    found = read_text(tmp_path, before + text_of(POINTS) + after)
    assert_array_equal(found.points, POINTS)
    assert found.warnings == ()


def test_windows_and_old_line_ends(tmp_path):
    for end in ("\r\n", "\r"):
        assert_array_equal(read_text(tmp_path, text_of(POINTS).replace("\n", end)).points, POINTS)


@pytest.mark.parametrize("header", ["nx,ny,nz,i,z,y,x", "# nx ny nz i z y x", "//nx ny nz i z y x"])
def test_names_decide_the_order_of_the_columns(header, tmp_path):
    rows = table(cloud().normals, np.ones((40, 1)), cloud().points[:, ::-1])
    found = read_text(tmp_path, f"{header}\n{text_of(rows)}")
    assert_array_equal(found.points, cloud().points)
    assert_array_equal(found.normals, cloud().normals)


NORMALS, COLORS, BYTES = cloud().normals, cloud().colors, np.rint(cloud().colors * 255)
ONES, WILD = np.ones((40, 1)), 1000 * cloud(3).points


@pytest.mark.parametrize(
    ("extra", "suffix", "normals", "colors", "warned"),
    [
        ((), ".xyz", False, False, False),
        ((ONES,), ".xyz", False, False, False),
        ((ONES, ONES), ".xyz", False, False, True),
        ((NORMALS,), ".xyz", True, False, False),
        ((NORMALS,), ".xyzn", True, False, False),
        ((BYTES,), ".xyz", False, True, False),
        ((COLORS,), ".xyzrgb", False, True, False),
        ((WILD,), ".xyz", False, False, True),
        ((WILD,), ".xyzrgb", False, False, True),
        ((ONES, BYTES), ".pts", False, True, False),
        ((NORMALS, ONES), ".txt", True, False, False),
        ((ONES, WILD), ".txt", False, False, True),
        ((NORMALS, BYTES), ".txt", True, True, False),
        ((BYTES, NORMALS), ".txt", True, True, False),
        ((WILD, NORMALS), ".txt", True, False, True),
        ((NORMALS, BYTES, ONES), ".txt", False, False, True),
    ],
)
def test_the_values_decide_where_there_are_no_names(extra, suffix, normals, colors, warned, tmp_path):
    found = read_text(tmp_path, text_of(table(cloud().points, *extra)), suffix)
    assert_array_equal(found.points, cloud().points)
    assert (found.normals is not None) == normals
    assert (found.colors is not None) == colors
    assert (found.warnings != ()) == warned
    if normals:
        assert_array_equal(found.normals, NORMALS)
    if colors:
        assert_allclose(found.colors, COLORS, atol=1e-12)


def test_the_same_rules_hold_for_npy(tmp_path):
    np.save(tmp_path / "a.npy", table(cloud().points, NORMALS, BYTES).astype(np.float32))
    np.save(tmp_path / "b.npy", np.asfortranarray(np.arange(30).reshape(10, 3) ** 2))
    assert read(tmp_path / "a.npy").colors is not None
    assert read(tmp_path / "a.npy").normals is not None
    assert_array_equal(read(tmp_path / "b.npy").points, np.arange(30).reshape(10, 3) ** 2)


def test_a_mistake_is_told_with_its_line(tmp_path):
    text = "# x y z\n\n" + text_of(POINTS)
    for wrong, message in (
        ("1 2 3 4", "line 7: found 4 columns, expected 3"),
        ("1 two 3", "line 7: found 'two', expected a number"),
        ("1 2_0 3", "line 7: found '2_0', expected a number"),
        ("1 2 3,5", "line 7: found '3,5', expected a number"),
    ):
        with pytest.raises(InputError, match=message):
            read_text(tmp_path, text + wrong + "\n")


def test_a_header_of_numbers_and_words_is_a_mistake_not_a_header(tmp_path):
    with pytest.raises(InputError, match="line 1: found 'x1'"):
        read_text(tmp_path, "1.0 x1 2.0\n" + text_of(POINTS))
