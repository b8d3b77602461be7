"""Applications, thin on top of the library: topics of a corpus, materials of a scene, representatives of a
table, items for users."""

from __future__ import annotations

from ._corpus import Corpus, read_corpus
from ._cube import Cube, read_cube
from ._pictures import save_pictures
from ._ratings import RatingsTable, read_ratings
from ._recommend import Recommender, recommend
from ._representatives import Representatives, representatives
from ._topic_scores import TopicScores, compare_topics
from ._topics import Topics, topics
from ._unmix import Unmixing, unmix

__all__ = [
    "Corpus",
    "Cube",
    "RatingsTable",
    "Recommender",
    "Representatives",
    "TopicScores",
    "Topics",
    "Unmixing",
    "compare_topics",
    "read_corpus",
    "read_cube",
    "read_ratings",
    "recommend",
    "representatives",
    "save_pictures",
    "topics",
    "unmix",
]
