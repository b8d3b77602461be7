"""Save and load topic models, write tables for other programs, and prepare the input of pyLDAvis."""

from __future__ import annotations

import csv
import json
import os
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._replacing import replacing
from .._signals import from_handler
from .._validate import as_array, check_list, numeric
from ..errors import FastAnchorsError, InvalidInputError, InvalidTypeError, MissingExtraError, StoreError, one_line
from ..io.addresses import local_path, path_to_write
from ..io.decoding import json_value, texts_of
from ..io.row_source import reading
from ..matrix.columns import check_columns
from ._corpus import as_corpus
from ._topic_update import check_fitted
from ._topic_words import POOL, relevant_words
from ._topics import Topics

__all__ = ["is_topics", "load_topics", "pyldavis", "save_table", "save_topics"]

_KIND = "fastanchors topics"
_FORMAT = 2  # 1 had no descriptive words
_ARRAYS = ("topics", "anchors", "groups", "share", "mixtures", "coherence", "npmi", "descriptive", "directions")
_KEYS = {"descriptive": "telling"}  # arrays with another name in the file
_SUM = 1e-3  # how far sums of proportions may be from one
_NUMBERS = ("tokens", "uniqueness", "min_documents", "candidates", "seconds")


def save_topics(model: Topics, path: str | os.PathLike[str], *, text_options: dict[str, Any] | None = None) -> None:
    """Write the model to an ``.npz`` file atomically: arrays and one JSON record.

    ``text_options``, the way texts were split into words, are saved with it.

    Parameters
    ----------
    model
        The result of :func:`topics`.
    path
        The file to write.
    text_options
        How texts were counted, saved for new documents.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastanchors as fa
    >>> model = fa.apps.topics(fa.datasets.topics(300, 80, 3, rng=0).A, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fa.apps.save_topics(model, folder + "/model.npz")
    ...     print(os.listdir(folder))
    ['model.npz']
    """
    check_fitted(model, "model")
    path = path_to_write(path)
    if not (text_options is None or isinstance(text_options, Mapping)):
        raise InvalidTypeError(f"text_options must be a dict or None, got {one_line(repr(text_options), 60)}")
    if path.suffix.lower() != ".npz":
        raise InvalidInputError(f"a topic model is saved as .npz, not {path.name!r}")
    record = {name: getattr(model, name) for name in _NUMBERS}
    record |= {"kind": _KIND, "format": _FORMAT, "text_options": text_options or {}}
    arrays = {_KEYS.get(name, name): getattr(model, name) for name in _ARRAYS}
    for name in ("vocabulary", "documents"):
        record[f"has_{name}"] = getattr(model, name) is not None
        arrays[name] = np.array(getattr(model, name) or [], dtype=str)
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez_compressed(file, allow_pickle=False, **arrays, record=np.array(json.dumps(record)))


def is_topics(path: str | os.PathLike[str]) -> bool:
    """Whether the file is a model that :func:`save_topics` wrote."""
    if not os.path.isfile(path):  # a device may have no end
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return {"topics.npy", "mixtures.npy", "record.npy"} <= set(archive.namelist())
    except (OSError, zipfile.BadZipFile):
        return False


def load_topics(path: str | os.PathLike[str]) -> Topics:
    """Load a model that :func:`save_topics` wrote.

    Parameters
    ----------
    path
        The ``.npz`` file.

    Examples
    --------
    >>> import tempfile
    >>> import fastanchors as fa
    >>> model = fa.apps.topics(fa.datasets.topics(300, 80, 3, rng=0).A, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fa.apps.save_topics(model, folder + "/model.npz")
    ...     again = fa.apps.load_topics(folder + "/model.npz")
    >>> bool((again.topics == model.topics).all())
    True
    """
    path = local_path(path)
    if not is_topics(path):
        raise StoreError(f"{os.fspath(path)} is not a topic model; write one with fastanchors topics --out model.npz")
    try:
        with np.load(path, allow_pickle=False) as file:
            model = _read(file, path)
        _check(model)
    except Exception as error:  # NumPy raises many kinds, also those of Python's tokenizer
        if isinstance(error, FastAnchorsError) or from_handler(error):
            raise
        raise StoreError(f"{os.fspath(path)} is damaged: {one_line(str(error), 200)}") from error
    return model


def _read(file: Any, path: str | os.PathLike[str]) -> Topics:
    record = json_value(texts_of(file["record"])[0])
    if record["kind"] != _KIND or record["format"] not in (1, _FORMAT):
        raise StoreError(f"{os.fspath(path)} has a format that this release does not read; upgrade fastanchors")
    saved = [name for name in _ARRAYS if name != "descriptive" or record["format"] == _FORMAT]
    arrays = {name: file[_KEYS.get(name, name)] for name in saved}
    lists: dict[str, Any] = {
        name: texts_of(file[name]) if record[f"has_{name}"] else None for name in ("vocabulary", "documents")
    }
    numbers = {name: record[name] for name in _NUMBERS}
    if record["format"] == 1:
        law, share = arrays["topics"], arrays["share"]
        arrays["descriptive"] = relevant_words(law, share @ law, numbers["tokens"], POOL)
    return Topics(**arrays, **lists, **numbers)


def _check(model: Topics) -> None:
    """Raise ``ValueError`` unless the arrays have the types and shapes of a model, and their indices are words."""
    k, words = model.topics.shape
    shapes: dict[str, tuple[int | None, ...]] = {
        "topics": (k, words),
        "share": (k,),
        "mixtures": (None, k),
        "coherence": (k,),
        "npmi": (k,),
        "directions": (None, None),
        "anchors": (k,),
        "groups": (k, None),
        "descriptive": (k, min(POOL, words)),
    }
    for name, shape in shapes.items():
        array = getattr(model, name)
        indices = name in ("anchors", "groups", "descriptive")
        if array.ndim != len(shape) or any(m not in (None, n) for n, m in zip(array.shape, shape, strict=True)):
            raise ValueError(f"{name} has the shape {array.shape}")
        if array.dtype.kind not in ("iu" if indices else "f"):
            raise ValueError(f"{name} has the type {array.dtype}")
        if indices and array.size and not 0 <= array.min() <= array.max() < words:
            raise ValueError(f"{name} has a word out of range 0 … {words - 1}")
        if name in ("topics", "share", "mixtures", "directions") and not np.isfinite(array).all():
            raise ValueError(f"{name} is not finite")
    if k < 1 or min(model.topics.min(), model.share.min(), model.mixtures.min(initial=0)) < 0:
        raise ValueError("topics must be non-negative")
    if not np.allclose(model.topics.sum(axis=1), 1, atol=_SUM) or not np.isclose(model.share.sum(), 1, atol=_SUM):
        raise ValueError("topics and shares must sum to one")
    if max(np.abs(model.directions).max(initial=0), model.mixtures.max(initial=0)) > 1 + _SUM:
        raise ValueError("directions and mixtures must not exceed one")
    for names, count in ((model.vocabulary, words), (model.documents, len(model.mixtures))):
        if names is not None and len(names) != count:
            raise ValueError(f"{len(names)} names for {count}")
    if not all(isinstance(getattr(model, name), int | float) for name in _NUMBERS):
        raise ValueError("a number is missing")


def text_options(path: str | os.PathLike[str]) -> dict[str, Any]:
    """How the texts of a saved model were split into words."""
    with reading(os.fspath(path)), np.load(path, allow_pickle=False) as file:
        options: Any = json_value(texts_of(file["record"])[0]).get("text_options", {})
    if not isinstance(options, dict) or not isinstance(options.get("reading", {}), dict):
        raise StoreError(f"{os.fspath(path)} is damaged: 'text_options' are not options by name")
    return options


def save_table(
    values: NDArray[np.float64],
    path: str | os.PathLike[str],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    corner: str = "document",
) -> None:
    """Write a table with names of rows and columns atomically, as ``.csv`` or ``.parquet``.

    Parameters
    ----------
    values
        The numbers, rows × columns.
    path
        The file to write; its suffix determines the format.
    rows, columns
        Names of rows and columns.
    corner
        Heading of the column of row names.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "t.csv"
    ...     fa.apps.save_table(np.eye(2), path, rows=["a", "b"], columns=["x", "y"])
    ...     print(path.read_text().splitlines()[0])
    document,x,y
    """
    path = path_to_write(path)
    check_list(rows, name="rows")
    check_list(columns, name="columns")
    suffix = path.suffix.lower()
    if suffix not in (".csv", ".parquet"):
        raise InvalidInputError(f"tables are written as .csv or .parquet, not {path.name!r}")
    values = numeric(as_array(values, "values"), "values")
    if values.shape != (len(rows), len(columns)):
        raise InvalidInputError(f"{len(rows)} × {len(columns)} names for a table of shape {values.shape}")
    with replacing(path) as partial:
        if suffix == ".csv":
            with partial.open("w", encoding="utf-8", errors="backslashreplace", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([corner, *columns])
                writer.writerows([name, *row] for name, row in zip(rows, values.tolist(), strict=True))
        else:
            _write_parquet(partial, values, rows, columns, corner)


def _write_parquet(path: Path, values: NDArray[np.float64], rows: Any, columns: Any, corner: str) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("writing Parquet needs pyarrow: pip install 'fastanchors[io]'") from error
    names = [_encodable(name) for name in (corner, *_distinct(columns, corner))]
    arrays = [pa.array([_encodable(name) for name in rows], pa.string()), *[pa.array(column) for column in values.T]]
    with path.open("wb") as file:  # Arrow takes no paths that are not UTF-8
        pq.write_table(pa.Table.from_arrays(arrays, names=names), file)


def _encodable(name: Any) -> Any:
    """A name with lone surrogates escaped, as in ``.csv`` files."""
    return name.encode("utf-8", "backslashreplace").decode() if isinstance(name, str) else name


def _distinct(names: Sequence[str], taken: str) -> list[str]:
    """The names, with numbers added to duplicates: Parquet readers need distinct columns."""
    seen = {taken}
    result = []
    for name in names:
        new, number = name, 2
        while new in seen:
            new, number = f"{name} {number}", number + 1
        seen.add(new)
        result.append(new)
    return result


def pyldavis(model: Topics, source: Any, **options: Any) -> dict[str, Any]:
    """The arguments of ``pyLDAvis.prepare`` for a model and the corpus it was fitted to.

    Parameters
    ----------
    model
        The result of :func:`topics`.
    source
        The documents that it was fitted to.
    **options
        Options of :func:`read_corpus`.

    Examples
    --------
    >>> import fastanchors as fa
    >>> corpus = fa.datasets.topics(300, 400, 4, rng=0)
    >>> model = fa.apps.topics(corpus.A, 4)
    >>> sorted(fa.apps.pyldavis(model, corpus.A))
    ['doc_lengths', 'doc_topic_dists', 'term_frequency', 'topic_term_dists', 'vocab']
    """
    check_fitted(model, "model")
    corpus = as_corpus(source, **options)
    H = corpus.counts
    if H.shape != (len(model.mixtures), model.topics.shape[1]):
        raise InvalidInputError(f"the corpus is {H.shape[0]} × {H.shape[1]}; pass the one that the model was fitted to")
    check_columns(model.vocabulary, corpus.vocabulary, "the model", "the corpus")
    lengths = np.asarray(H.sum(axis=1)).reshape(-1)
    known = np.flatnonzero(model.topics.max(axis=0) > 0)
    full = np.flatnonzero(model.mixtures.any(axis=1))
    return {
        "topic_term_dists": model.topics[:, known] / model.topics[:, known].sum(axis=1, keepdims=True),
        "doc_topic_dists": model.mixtures[full] / model.mixtures[full].sum(axis=1, keepdims=True),
        "doc_lengths": lengths[full],
        "vocab": [model.name(int(word)) for word in known],
        "term_frequency": np.asarray(H.sum(axis=0)).reshape(-1)[known],
    }
