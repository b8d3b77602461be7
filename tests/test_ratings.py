"""Ratings files: every layout of MovieLens, and one clear error with its line for all that is no rating."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

import fastanchors as fa
from fastanchors.errors import InvalidInputError, StoreError

LAYOUTS = {
    "u.data": ["u1\ti1\t3\t99", "u2\ti1\t4.5\t99", "u1\ti2\t1\t99"],
    "ratings.dat": ["u1::i1::3::99", "u2::i1::4.5::99", "u1::i2::1::99"],
    "ratings.csv": ["userId,movieId,rating,timestamp", "u1,i1,3,99", "u2,i1,4.5,99", 'u1,"i2",1,99', ""],
    "semicolons, a rating given twice": ["user;item;stars", "u1;i1;2", "u2;i1;4.5", "u1;i2;1", "u1;i1;3"],
    "blanks": ["u1 i1 3", "u2  i1   4.5", " u1 i2 1"],
    "commas and blanks": ["u1, i1, 3", "u2, i1 , 4.5", 'u1, "i2", 1'],
    "empty lines": ["", "  ", "user\titem\trating", "", "u1\ti1\t3", "u2\ti1\t4.5", "", "u1\ti2\t1"],
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
def test_layouts(tmp_path, name, end, packed, mark):
    content = mark + (end.join(LAYOUTS[name]) + end).encode()
    path = tmp_path / ("ratings.gz" if packed else "ratings")
    path.write_bytes(gzip.compress(content) if packed else content)
    table = fa.apps.read_ratings(path)
    assert table.users == ["u1", "u2"]
    assert table.items == ["i1", "i2"]
    assert table.A.nnz == 3
    np.testing.assert_array_equal(table.A.toarray(), [[3, 1], [4.5, 0]])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no ratings"),
        (b"\n\n", "holds no ratings"),
        (b"user,item,rating\n", "holds no ratings"),
        (b"a,b,1\na,c\n", "line 2: expected user, item, rating"),
        (b"a,b,1\n\na,c,good\n", "line 3: expected user, item, rating"),
        (b"a,b,1\n,c,2\n", "line 2: expected user, item, rating"),
        (b"a,b,1\na\tc\t2\n", "line 2: expected user, item, rating"),
        (b"1,2,x\n1,3,4\n", "line 1: expected user, item, rating"),  # a number in it: no header
        (b"1,2\n1,3,4\n", "line 1: expected user, item, rating"),
        (b"user,item\n1,3,4\n", "line 1: expected user, item, rating"),
        (b"a,b,nan\n", "line 1: the rating nan is not finite"),
        (b"a,b,3\na,c,-inf\n", "line 2: the rating -inf is not finite"),
        (b"a,b,3\na,c,0\n", "line 2: a rating of 0"),
        (b"user,item,rating\nJos\xe9,b,3\n", "line 2: not UTF-8"),
        (gzip.compress(b"a,b,3\n" * 100)[:-12], "truncated or damaged"),
    ],
)
def test_what_is_no_rating_is_one_clear_error(tmp_path, content, message):
    path = tmp_path / "ratings.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        fa.apps.read_ratings(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(StoreError, match="cannot read"):
        fa.apps.read_ratings(tmp_path / "nothing.csv")
