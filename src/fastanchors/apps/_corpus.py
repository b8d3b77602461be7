"""Read corpora: word counts with their vocabulary, from texts in memory or files, counts, frames and stores."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from .._equality import ComparedByValue
from .._tables import as_frame, is_named_array
from .._validate import check_finite, check_flag, check_number, check_size, check_text
from ..errors import InvalidInputError, InvalidTypeError
from ..io import open_source
from ..io.addresses import exists, is_address, is_local, local_path
from ..io.bags import vocabulary_of
from ..io.decoding import missing
from ..io.open import check_options
from ..io.row_source import read_names
from ..io.text import cell_texts, holds_texts, read_texts
from ..matrix import open_matrix
from ..matrix.frames import is_labelled
from ._counts import document_counts, stacked, stored_counts
from ._stop_words import LANGUAGES, StopWords, likely_language, stop_word_list
from ._tokens import Tokenizer, count_texts, count_with, strip_html

__all__ = [
    "Corpus",
    "as_corpus",
    "as_texts",
    "beginnings",
    "check_words",
    "is_path",
    "is_texts",
    "read_corpus",
    "refuse_vocabulary",
]

_FEW = 10  # with fewer documents, words in one document are kept; fewer columns are not a table of word counts
_LANGUAGE_SAMPLE = 2000  # documents from which the language is detected
_IN_MEMORY = "the counts"  # the name of counts in memory
_LONGEST = 5  # words of an n-gram
_BEGINNING = 400  # characters of a text that are kept for display


@dataclass(frozen=True, eq=False)
class Corpus(ComparedByValue):
    """Counts (documents × words, CSR), the words, and names and beginnings of the documents if there are any.

    Counts that are negative or not finite are an error.

    Examples
    --------
    >>> import fastanchors as fa
    >>> corpus = fa.apps.as_corpus(["cats purr", "dogs bark", "cats and dogs"], min_df=1)
    >>> corpus.vocabulary
    ['bark', 'cats', 'dogs', 'purr']
    """

    counts: Any
    vocabulary: list[str] | None
    documents: list[str] | None
    name: str
    notes: tuple[str, ...] = ()  # for the user: source of the words, documents without words
    texts: list[str] | None = None

    def __post_init__(self) -> None:
        check_finite(self.counts, name="counts" if self.name == _IN_MEMORY else f"{self.name}: counts")


def read_corpus(
    path: str | Path,
    *,
    column: str | int | None = None,
    title: str | int | None = None,
    header: bool | None = None,
    vocab: Any = None,
    format: str | None = None,
    encoding: str = "utf-8",
    errors: str = "strict",
    min_df: int | None = None,
    max_df: float = 1.0,
    stop_words: StopWords = "english",
    ngrams: int = 1,
    html: bool = False,
    vectorizer: Any = None,
) -> Corpus:
    """Word counts of a corpus.

    Options for the columns and bytes of texts that a source of its kind does not have are an error.

    Parameters
    ----------
    path : str or Path
        A folder of text files, one document each (other files are left out, which the ``notes`` of the corpus state); a
        ``.txt`` file with one document per line (empty lines are skipped); a ``.csv``, ``.tsv``, ``.jsonl``, ``.json``
        or ``.parquet`` file with the text in ``column``; each also compressed (``.gz``, ``.bz2``, ``.xz``). Or counts:
        a store, or what :func:`fastanchors.io.open_source` reads (LDA-C, docword, Matrix Market, ``.npz``, and a table
        of at least ten columns of numbers and at most one of texts).
    column, title : str, int or None
        The columns of the texts and of their names: by name, or by number from 0.
    header : bool or None
        Whether a ``.csv`` or ``.tsv`` file begins with names of columns; None determines this from its first line.
    vocab : path, sequence, mapping or None
        For counts, the words: a file with one per line, a sequence in the order of the columns, or the column of each
        word, such as ``vocabulary_`` of scikit-learn's vectorisers. By default the file of the usual name beside
        the counts is used (``vocab.txt``, ``<name>.vocab``, ``vocab.<rest>`` of ``docword.<rest>``) if its words fit
        the counts; the ``notes`` of the corpus state this.
    format
        The format, if the name of the file does not determine it.
    encoding, errors : str
        Encoding of texts and tables. Invalid bytes raise an error, or with ``errors="replace"`` are replaced and
        counted in the notes.
    min_df, max_df : int or None, float
        Words in fewer than ``min_df`` documents, or in more than the fraction ``max_df`` of them, are left out; unlike
        in scikit-learn, the first is always a number and the second a fraction. By default words in only one document
        are left out, unless there are fewer than ten documents or they are in a store.
    stop_words : str, Path, collection of str or None
        A language (english, german, french, spanish, italian, portuguese, dutch), a file with one word per line, the
        words themselves, or None. They are left out, also from counts if the words are known.
    ngrams : int
        Sequences of up to this many words, at most 5, count as words.
    html : bool
        Whether tags are removed from the texts.
    vectorizer
        A scikit-learn vectoriser that counts the words instead, or None; it then handles stop words and n-grams.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import fastanchors as fa
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "texts.txt"
    ...     _ = path.write_text("cats purr\\ndogs bark\\ncats and dogs\\n")
    ...     print(fa.apps.read_corpus(path, min_df=1).counts.shape)
    (3, 4)
    """
    given: dict[str, Any] = {"min_df": min_df, "max_df": max_df, "stop_words": stop_words}
    check_words(min_df, max_df, ngrams, html)
    for what, given_column in (("column", column), ("title", title)):
        if not (given_column is None or isinstance(given_column, str | int | np.integer)):
            raise InvalidTypeError(f"{what} must be the name or number of a column, got {given_column!r:.60}")
    if header is not None:
        check_flag(header, name="header")
    check_text(encoding, name="encoding")
    path = local_path(path)
    if not exists(path):
        raise missing(path)
    if format is None and holds_texts(path, column):
        refuse_vocabulary(vocab, str(path))
        read = read_texts(path, column=column, title=title, header=header, encoding=encoding, errors=errors)
        given |= {"ngrams": ngrams, "html": html, "vectorizer": vectorizer}
        return _of_texts(read.texts, read.names, str(path), read.notes, read.replaced, **given)
    of_texts = {"column": column, "title": title, "header": header, "encoding": encoding, "errors": errors}
    for option, value in of_texts.items():
        if value not in (None, "utf-8", "strict"):
            raise InvalidInputError(f"{path} has counts, not texts; remove {option}=…")
    notes: list[str] = []
    if exists(path / "manifest.json"):
        if format is not None:
            raise InvalidInputError(f"{path} is a store, not a file of some format; remove format=…")
        source: Any = open_matrix(path)
        counts = stored_counts(source)
        words = _words(vocab, source.column_names, counts.shape[1])
        documents = _names(source.row_names)
        given["min_df"] = min_df or 0  # a word that occurs once in a growing store may occur again
    else:
        options = {} if vocab is None else {_vocab_option(path, format): vocab}
        source = open_source(path, format=format, **options)
        counts = stacked([sp.csr_array(block) for block in source.blocks()])
        words, documents = _names(source.column_names), _names(source.row_names)
        found = source.column_names_from
        if words is None and _vocab_option(path, format) != "vocab":  # readers of bags of words look for it themselves
            stem = path.stem.removesuffix(Path(path.stem).suffix) if path.suffix == ".gz" else path.stem
            listed, found = vocabulary_of(path, None, (f"{stem}.vocab", "vocab.txt"), counts.shape[1], True)
            words = _names(listed)
        if found is not None:
            notes.append(f"words from {found}")
    return _kept(Corpus(counts, words, documents, str(path), tuple(notes)), **given)


def is_path(source: Any) -> bool:
    """Whether ``source`` is the path of a file, a folder or a store on disk."""
    return isinstance(source, str | os.PathLike) and (not is_address(source) or is_local(str(source)))


def is_texts(source: Any) -> bool:
    """Whether ``source`` is a sequence of texts: a list of strings, a column of a frame."""
    if isinstance(source, str | bytes | os.PathLike) or sp.issparse(source):
        return False
    if isinstance(source, list | tuple):
        return _begins_with_texts(source)
    if getattr(source, "ndim", None) == 1 or (hasattr(source, "to_list") and not hasattr(source, "columns")):
        return _begins_with_texts(np.asarray(source, dtype=object))
    return False


def _begins_with_texts(values: Any) -> bool:
    """Whether any of the first values is a text; some may be missing."""
    return any(isinstance(value, str) for value in values[:_FEW])


def as_corpus(source: Any, *, vocabulary: Sequence[str] | Mapping[str, int] | None = None, **options: Any) -> Corpus:
    """Convert ``source`` to a corpus.

    Texts (a list of strings, a column of a frame) and paths take the ``options`` of :func:`read_corpus`; so does a
    frame with its ``column`` of texts, and perhaps their ``title``. Counts (an array, sparse matrix, frame, store or
    sample matrix) are taken as they are, with the frame's columns as words.

    Parameters
    ----------
    source
        Texts, a path, counts, or a :class:`Corpus`.
    vocabulary
        A name for each column of counts, or the column of each name, or a file with one name per line; ``vocab`` is
        another name for it.
    **options
        Options of :func:`read_corpus`, for texts and paths.

    Examples
    --------
    >>> import fastanchors as fa
    >>> corpus = fa.apps.as_corpus(["cats purr", "dogs bark", "cats and dogs"], min_df=1)
    >>> corpus.counts.shape
    (3, 4)
    """
    if "vocab" in options:  # its name in read_corpus
        if vocabulary is not None:
            raise InvalidTypeError("vocab and vocabulary are two names of one option; pass vocabulary=… only")
        vocabulary = options.pop("vocab")
    check_options(options, read_corpus)
    if isinstance(source, Corpus):
        refuse_vocabulary(vocabulary, "the corpus")
        if options:
            raise InvalidTypeError(
                f"{next(iter(options))!r} is an option of read_corpus, and this corpus has been read"
            )
        return source
    if is_path(source):
        return read_corpus(os.fspath(source), vocab=vocabulary, **options)
    names = None
    if not is_named_array(source) or "column" in options:
        source = as_frame(source, "the frame")
    if "column" in options and is_labelled(source):
        title = options.pop("title", None)
        names = None if title is None else cell_texts(_frame_column(source, title), "title")
        source = _frame_column(source, options.pop("column"))
    if is_texts(source):
        check_options(options, _of_texts, "texts in memory have")
        refuse_vocabulary(vocabulary, "the source")
        return _of_texts(as_texts(source), names, "the texts", **options)
    if isinstance(source, list | tuple) and len(source) == 0:
        raise InvalidInputError("there are no documents: the list is empty")
    _refuse_frame_of_texts(source)
    if options:
        raise InvalidTypeError(f"{next(iter(options))!r} is an option for texts, but these are counts; remove it")
    matrix = open_matrix(source, name="counts")
    counts = stored_counts(matrix)
    words = _words(vocabulary, matrix.column_names, counts.shape[1])
    return Corpus(counts, words, _names(matrix.row_names), _IN_MEMORY)


def _words(given: Any, own: Sequence[str] | None, columns: int) -> list[str] | None:
    """The given words, in the order of the columns, or those that the counts have; None if there are none."""
    words = _names(own if given is None else read_names(given, "word"))
    if words is not None and len(words) != columns:
        raise InvalidInputError(f"the vocabulary has {len(words)} words, the counts {columns} columns")
    return words


def _refuse_frame_of_texts(source: Any) -> None:
    """Raise if a frame has a column of texts. One column of names beside many numbers is a table of counts."""
    if not is_labelled(source) or not hasattr(source, "columns"):
        return
    texts = _text_columns(source)
    if len(texts) > 1 or (texts and len(source.columns) - 1 < _FEW):
        longest = max(texts, key=lambda name: sum(len(str(text)) for text in list(source[name])[:_FEW]))
        raise InvalidTypeError(
            f"the frame holds texts ({', '.join(map(repr, texts[:_FEW]))}) and not counts of words; pass the column "
            f"that holds them: frame[{longest!r}], or topics(frame, k, column={longest!r})"
        )


def _text_columns(frame: Any) -> list[Any]:
    """Names of the columns that hold texts."""
    if hasattr(frame, "schema"):
        return [name for name, kind in frame.schema.items() if str(kind) in ("String", "Utf8")]
    maybe = [at for at, kind in enumerate(frame.dtypes) if getattr(kind, "kind", "O") in "OU"]
    return [frame.columns[at] for at in maybe if _begins_with_texts(list(frame.iloc[:_FEW, at]))]


def _frame_column(frame: Any, column: str | int) -> Any:
    """A column by its name, or by its number from 0."""
    names = list(frame.columns)
    if column not in names and isinstance(column, int) and 0 <= column < len(names):
        column = names[column]
    if column not in names:
        raise InvalidInputError(f"the frame has no column {column!r}; its columns are {', '.join(map(str, names))}")
    return frame[column]


def as_texts(source: Any) -> list[str]:
    """The texts of a source that :func:`is_texts` accepts; other values among them raise an error."""
    for at, text in enumerate(source):
        if not isinstance(text, str):
            raise InvalidTypeError(f"document {at} is not text but {type(text).__name__}; use '' for a missing one")
    return list(source)


def refuse_vocabulary(vocabulary: Any, name: str) -> None:
    if vocabulary is not None:
        raise InvalidInputError(
            f"{name} has its own words, and vocabulary=… names the columns of counts; remove it, or to count only "
            "these words pass vectorizer=CountVectorizer(vocabulary=…) of scikit-learn with texts"
        )


def check_words(min_df: Any, max_df: Any, ngrams: Any, html: Any) -> None:
    """Raise unless these options of :func:`read_corpus` are what they should be, also where they have no effect."""
    if isinstance(min_df, float | np.floating):
        raise InvalidTypeError(f"min_df is a number of documents, such as 2, not a fraction of them; got {min_df}")
    if min_df is not None:
        check_size(min_df, name="min_df", minimum=0)
    if isinstance(max_df, int | np.integer) and max_df > 1:
        raise InvalidInputError(
            f"max_df is a fraction of the documents, from 0 to 1, not a number of them; got {max_df}"
        )
    check_number(max_df, name="max_df", minimum=0, maximum=1)
    if check_size(ngrams, name="ngrams") > _LONGEST:
        raise InvalidInputError(f"ngrams must be at most {_LONGEST}, got {ngrams}")
    check_flag(html, name="html")


def _of_texts(
    texts: list[str],
    names: list[str] | None,
    name: str,
    notes: Sequence[str] = (),
    replaced: int = 0,
    *,
    min_df: int | None = None,
    max_df: float = 1.0,
    stop_words: StopWords = "english",
    ngrams: int = 1,
    html: bool = False,
    vectorizer: Any = None,
) -> Corpus:
    check_words(min_df, max_df, ngrams, html)
    notes = list(notes)
    if replaced:
        notes.append(f"{replaced} {'byte was' if replaced == 1 else 'bytes were'} not text and replaced")
    if vectorizer is not None:
        counts, words = count_with(vectorizer, texts, fit=True)
        return Corpus(counts, words, names, name, (*notes, *_empty(counts)), beginnings(texts, html))
    stop = stop_word_list(stop_words)
    notes += _language_notes(texts, stop_words, html)
    tokenizer = Tokenizer(stop, ngrams=ngrams, html=html)
    counts, words = count_texts(texts, tokenizer, name)
    corpus = Corpus(counts, words, names, name, (*notes, *_empty(counts)), beginnings(texts, html))
    return _kept(corpus, min_df=min_df, max_df=max_df, stop_words=None)


def beginnings(texts: list[str], html: bool) -> list[str]:
    """The beginning of each text, for display."""
    return [(strip_html(text) if html else text)[:_BEGINNING] for text in texts]


def _empty(counts: sp.csr_array) -> list[str]:
    empty = int(np.count_nonzero(np.diff(counts.indptr) == 0))
    return [f"{empty} of {counts.shape[0]} documents hold no words"] if empty else []


def _language_notes(texts: list[str], stop_words: StopWords, html: bool) -> list[str]:
    """A note if the stop words are not those of the texts' language."""
    given = stop_words.lower() if isinstance(stop_words, str) else ""
    if given not in LANGUAGES:  # none, or a custom list
        return []
    step = max(1, len(texts) // _LANGUAGE_SAMPLE)
    split, seen = Tokenizer(html=html), {}  # type: tuple[Tokenizer, dict[str, float]]
    for text in texts[::step]:
        for word in split(text):
            seen[word] = seen.get(word, 0) + 1
    if sum(seen.values()) < 200:  # too few words to detect the language
        return []
    language = likely_language(seen)
    if language is None:
        return ["no list of stop words fits the language of these texts; give a file of them, or none"]
    if language != given:
        return [f"the texts look {language.capitalize()}: its stop words are left out with stop words {language!r}"]
    return []


def _names(known: Any) -> list[str] | None:
    return None if known is None else [str(name) for name in known]


def _vocab_option(path: Path, format: str | None) -> str:
    bags = format in ("ldac", "docword") or "docword" in path.name or path.suffix in (".dat", ".ldac", ".lda-c")
    return "vocab" if bags else "column_names"


def _kept(corpus: Corpus, *, min_df: int | None, max_df: float, stop_words: StopWords) -> Corpus:
    """The corpus without words that are too rare, too common, or stop words."""
    counts, words, stop = corpus.counts, corpus.vocabulary, stop_word_list(stop_words)
    documents = document_counts(counts)
    if min_df is None:
        min_df = 2 if counts.shape[0] >= _FEW else 1
    keep = (documents >= min_df) & (documents <= max_df * counts.shape[0])
    if words is not None and stop:
        keep &= np.array([word.lower() not in stop for word in words])
    if not keep.any():
        given = f"min_df={min_df}, max_df={max_df} and the stop words"
        raise InvalidInputError(f"no word of {corpus.name} is left by {given}; a lower min_df keeps rarer words")
    if keep.all():
        return corpus
    at = np.flatnonzero(keep)
    left = [str(j) if words is None else words[j] for j in at]  # without words, the columns keep their numbers
    return replace(corpus, counts=sp.csr_array(counts[:, at]), vocabulary=left)
