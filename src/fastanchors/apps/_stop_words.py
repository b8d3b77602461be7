"""Lists of stop words by language: common words that carry no information about the topic of a text."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TypeAlias

from ..errors import InvalidInputError, InvalidTypeError
from ..io.addresses import exists
from ..io.decoding import did_you_mean, missing
from ..io.row_source import read_names

__all__ = ["LANGUAGES", "StopWords", "likely_language", "stop_word_list"]

# Articles, pronouns, prepositions, conjunctions, auxiliary verbs and the commonest adverbs of each language.
_LISTS = {
    "german": """
        ab aber alle allem allen aller alles als also am an andere anderen auch auf aus bei beim bin bis bist da
        dabei dadurch dafür damit dann daran darauf darüber das dass dazu dein dem den denen denn der deren des
        dessen die dies diese diesem diesen dieser dieses doch dort du durch ein eine einem einen einer eines er
        erst es etwa etwas euch euer für gegen gewesen hab habe haben hat hatte hatten hier hin hinter ich ihm ihn
        ihnen ihr ihre ihrem ihren ihrer im in indem ins ist ja jede jedem jeden jeder jedes jener jetzt kann kein
        keine keinen keiner können könnte mal man mehr mein mich mir mit muss müssen nach nicht nichts noch nun nur
        ob oder ohne schon sehr sein seine seinem seinen seiner seit sich sie sind so solche soll sollen sollte
        sondern sonst über um und uns unser unter viel vom von vor wann war waren warum was weil weiter welche
        welchem welchen welcher wenn wer werde werden wie wieder will wir wird wo wollen worden wurde wurden während
        würde würden zu zum zur zwar zwischen""",
    "french": """
        ai ainsi alors au aucun aussi autre aux avait avec avoir avons car ce cela ces cet cette ceux chaque chez ci
        comme comment dans de depuis des deux dit donc dont du elle elles en encore entre est et étaient était été
        être eu eux fait faire fois font hors il ils je la le les leur leurs lui là ma mais me même mes moins mon
        moi ne ni nos notre nous on ont or ou où par parce pas pendant peu peut plus pour pourquoi puis quand que
        quel quelle quelles quels qui sa sans se sera ses si soit son sont sous sur ta te tes toi ton tous tout
        toute toutes très trop tu un une vers voir vos votre vous""",
    "spanish": """
        al algo algunos ante antes aquel así aún aunque cada como con contra cual cuando de del desde donde dos
        durante el él ella ellas ellos en entre era eran es esa ese eso esta está están estaba este esto estos fue
        fueron ha había han hasta hay la las le les lo los más me mi mientras mis mismo mucho muy nada ni no nos
        nosotros nuestra nuestro o os otra otras otro otros para pero poco por porque pues que qué quien se sea
        según ser si sí sido sin sino sobre son su sus también tan tanto te tiene tienen toda todas todo todos tu
        tus un una uno unos usted y ya yo""",
    "italian": """
        agli ai al alla alle allo anche ancora avere aveva ben che chi ci come con contro cosa così cui da dagli dal
        dalla dalle dei del della delle dello dentro di dopo dove due e è ed era erano essere fa fatto fino fra gli
        ha hanno ho i il in io la le lei li lo loro lui ma mai me meno mentre mi mio molto ne nei nel nella nelle no
        noi non nostro o ogni oltre ora per perché però più poco poi prima può qua quale quando quanto quella quelle
        quelli quello questa queste questi questo qui se sé senza si sia sono sta stata stati stato su sua sue sugli
        sui sul sulla suo suoi tra tutta tutte tutti tutto un una uno vi voi""",
    "portuguese": """
        à ao aos as às até com como da das de dela dele deles depois do dos e é ela elas ele eles em entre era eram
        essa esse esta está estão este eu foi for foram há isso isto já la lhe lo mais mas me mesmo meu minha muito
        na não nas nem no nos nós nossa nosso num numa o os ou para pela pelas pelo pelos por porque quando que quem
        são se seja sem ser será seu seus só sua suas também te tem têm tinha toda todas todo todos tu um uma você""",
    "dutch": """
        aan al alles als altijd andere ben bij daar dan dat de der deze die dit doch doen door dus een en er ge geen
        had heb hebben heeft hem het hier hij hoe hun iemand iets ik in is ja je kan kon kunnen maar me meer men met
        mij mijn moet na naar niet niets nog nu of om omdat onder ons ook op over reeds te tegen toch toen tot u uit
        uw van veel voor want waren was wat we werd wezen wie wij wil worden wordt zal ze zelf zich zij zijn zo
        zonder zou""",
}

LANGUAGES = ("english", *_LISTS)
_ENOUGH = 0.05  # stop words are at least this fraction of the tokens of any text in their language, with a margin


StopWords: TypeAlias = str | Path | Collection[str] | None


def stop_word_list(stop_words: StopWords) -> frozenset[str]:
    """The stop words of a language, of a file with one word per line, or as given; empty for None and ``"none"``."""
    if stop_words is None or (isinstance(stop_words, str) and stop_words == "none"):
        return frozenset()
    if isinstance(stop_words, str) and stop_words.lower() in LANGUAGES:
        return _language(stop_words.lower())
    if not isinstance(stop_words, str | Path):
        listed = isinstance(stop_words, Collection) and getattr(stop_words, "ndim", 1) == 1
        if not listed or not all(isinstance(word, str) for word in stop_words):
            raise InvalidTypeError(f"stop words are a language, a file, words or None, got {stop_words!r:.60}")
        return _as_compared(stop_words)
    path = Path(stop_words)
    if not exists(path):
        languages = ", ".join(LANGUAGES)
        if path.suffix or "/" in str(stop_words):
            raise missing(path, f"; stop words are a file or one of {languages}, none")
        hint = did_you_mean(str(stop_words), LANGUAGES)
        raise InvalidInputError(f"no stop words for {str(stop_words)!r}: give a file or one of {languages}, none{hint}")
    return _as_compared(read_names(path, "stop word") or [])


def _as_compared(words: Iterable[str]) -> frozenset[str]:
    """The words in the form in which those of texts are compared with them."""
    return frozenset(word.strip().lower().replace("’", "'") for word in words)


def _language(name: str) -> frozenset[str]:
    if name == "english":
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        return frozenset(ENGLISH_STOP_WORDS)
    return frozenset(_LISTS[name].split())


def likely_language(counts: dict[str, float]) -> str | None:
    """The language whose stop words make up most of these tokens, or None if that fraction is too small."""
    total = sum(counts.values())
    shares = {name: sum(counts.get(word, 0) for word in _language(name)) / max(total, 1) for name in LANGUAGES}
    best = max(shares, key=lambda name: shares[name])
    return best if shares[best] >= _ENOUGH else None
