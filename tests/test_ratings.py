"""Ratings files: every layout of MovieLens, and one clear error with the line for an invalid rating."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.sparse as sp

import fastanchors as fa
from fastanchors.errors import InvalidInputError, InvalidTypeError, StoreError

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
        (gzip.compress(b"a,b,3\n" * 100, mtime=0)[:-12], "truncated or damaged"),
    ],
)
def test_invalid_ratings_raise_one_clear_error(tmp_path, content, message):
    path = tmp_path / "ratings.csv"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=message):
        fa.apps.read_ratings(path)


def test_a_missing_file(tmp_path):
    with pytest.raises(StoreError, match="cannot read"):
        fa.apps.read_ratings(tmp_path / "nothing.csv")


def frame(module):
    """A long frame with ids that are not row numbers, and one repeated rating."""
    ratings = {"who": ["b", "a", "b", "c", "c", "b"], "what": [30, 10, 10, 20, 30, 30], "stars": [1.0, 4, 5, 3, 2, 2.5]}
    return pytest.importorskip(module).DataFrame(ratings)


NAMES = {"user": "who", "item": "what", "rating": "stars"}


def test_long_frames_keep_their_ids():
    table = fa.apps.RatingsTable.from_frame(frame("pandas"), **NAMES)
    assert (table.users, table.items) == (["b", "a", "c"], [30, 10, 20])
    assert table.A.toarray().tolist() == [[2.5, 5, 0], [0, 4, 0], [2, 0, 3]]
    assert table.popular(["a", "b"], 2).tolist() == [[30, 20], [20, None]]
    items = fa.apps.recommend(frame("pandas"), ["a", "b"], 2, **NAMES, k=2, rng=0)
    direct = fa.apps.recommend(table.A, [1, 0], 2, k=2, rng=0)
    assert items.tolist() == [[None if j < 0 else table.items[j] for j in row] for row in direct.tolist()]


def test_bad_frames_and_users_are_named():
    pandas = pytest.importorskip("pandas")
    with pytest.raises(InvalidInputError, match=r"no column 'user'.*user=…"):
        fa.apps.recommend(frame("pandas"), ["a"])
    with pytest.raises(InvalidInputError, match="user 'z'"):
        fa.apps.recommend(frame("pandas"), ["z"], **NAMES)
    for bad in (0.0, np.nan, np.inf):
        with pytest.raises(InvalidInputError, match="row 1 of the frame"):
            fa.apps.RatingsTable.from_frame(pandas.DataFrame({"user": [1, 2], "item": [1, 1], "rating": [3.0, bad]}))
    with pytest.raises(InvalidInputError, match="'user' has rows without a value"):
        fa.apps.RatingsTable.from_frame(pandas.DataFrame({"user": ["a", None], "item": [1, 1], "rating": [3.0, 1.0]}))


def test_the_command_shows_popularity_too(tmp_path):
    pytest.importorskip("click", reason="extra cli")
    import json

    from click.testing import CliRunner

    from fastanchors.cli.app import app

    path = tmp_path / "ratings.csv"
    path.write_text("user,item,rating\nb,x,2\na,y,4\nb,y,5\nc,z,3\nc,x,2\n")
    result = CliRunner().invoke(app, ["recommend", str(path), "--user", "a", "-n", "2", "-k", "2", "--json"])
    assert result.exit_code == 0, result.output
    (answer,) = json.loads(result.stdout)["answers"]
    assert answer["popular"] == ["x", "z"]
    assert sorted(answer["items"]) == ["x", "z"]
    shown = CliRunner().invoke(app, ["recommend", str(path), "--user", "a", "-n", "2"]).stdout
    assert "most popular" in shown
    path.write_text("stars,film,when,who\n2,x,1,b\n4,y,1,a\n5,y,1,b\n3,z,1,c\n2,x,1,c\n")
    columns = ["--user-column", "who", "--item-column", "film", "--rating-column", "stars"]
    again = CliRunner().invoke(app, ["recommend", str(path), "--user", "a", "-n", "2", "-k", "2", "--json", *columns])
    assert json.loads(again.stdout)["answers"] == [answer]


def test_columns_of_a_file_are_taken_by_their_headings(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("rating;item;user\n2;x;b\n4;y;a\n")
    table = fa.apps.read_ratings(path, user="user", item="item", rating="rating")
    assert (table.users, table.items) == (["b", "a"], ["x", "y"])
    np.testing.assert_array_equal(table.A.toarray(), [[2, 0], [0, 4]])
    with pytest.raises(InvalidInputError, match=r"no column 'users'; did you mean 'user'\?"):
        fa.apps.read_ratings(path, user="users", item="item", rating="rating")
    with pytest.raises(InvalidInputError, match="cannot be two of"):
        fa.apps.read_ratings(path, user="item")


@pytest.mark.parametrize(
    "text", [",user,item,rating\n0,a,x,5\n1,b,x,3\n", '"","user","item","rating"\n"1","a","x",5\n']
)
def test_ratings_with_an_index_are_read_by_the_names_of_their_columns(tmp_path, text):
    """As pandas and R write them; the error did not say how to read them."""
    path = tmp_path / "r.csv"
    path.write_text(text)
    with pytest.raises(InvalidInputError, match="give those of all three: user=…, item=…, rating=…"):
        fa.apps.read_ratings(path)
    table = fa.apps.read_ratings(path, user="user", item="item", rating="rating")
    assert table.items == ["x"]


def test_ids_are_in_order_and_as_many_as_rows_and_columns():
    A = np.array([[5.0, 0.0], [3.0, 1.0]])
    for bad in ({"a", "b"}, {"a": 0, "b": 1}):
        with pytest.raises(InvalidTypeError, match="pass a list of ids in the order of A"):
            fa.apps.RatingsTable(A, bad, ["x", "y"])
    with pytest.raises(InvalidInputError, match="1 ids of items, but 2 items"):
        fa.apps.RatingsTable(A, ["a", "b"], ["x"])


@pytest.mark.parametrize("heading", ["item,user,rating", "ItemId,user_id,rating", "timestamp,user,item,rating"])
def test_a_heading_in_another_order_must_be_named(tmp_path, heading):
    """Users and items were exchanged without a word."""
    path = tmp_path / "r.csv"
    path.write_text(f"{heading}\n1,2,3,4\n")
    with pytest.raises(InvalidInputError, match="not user, item, rating; name them with user="):
        fa.apps.read_ratings(path)
    user = heading.split(",")[1]
    assert fa.apps.read_ratings(path, user=user, item=heading.split(",")[0], rating="rating").users == ["2"]


def test_stored_zeros_are_no_ratings():
    """They counted as ratings of popular items, and as seen."""
    A = sp.csr_array(([1.0, 0.0, 0.0, 2.0], ([0, 1, 2, 2], [0, 1, 1, 2])), shape=(3, 3))
    table = fa.apps.RatingsTable(A, ["a", "b", "c"], ["x", "y", "z"])
    assert table.A.nnz == 2
    assert A.nnz == 4
    assert table.popular(["b"], 2).tolist() == [["x", "z"]]


def test_ids_of_users_are_distinct():
    """The last row of an id was used."""
    with pytest.raises(InvalidInputError, match="two rows have the user 'a'"):
        fa.apps.RatingsTable(np.eye(2), ["a", "a"], [1, 2])
    with pytest.raises(InvalidTypeError, match="hashable"):
        fa.apps.RatingsTable(np.eye(2), [["a"], ["b"]], [1, 2])
