"""Applications, thin on top of the library: topics of a corpus, materials of a scene, representatives of a
table, items for users."""

from __future__ import annotations

from ._archetypes import archetypes
from ._corpus import Corpus, as_corpus, read_corpus
from ._cube import Cube
from ._material_curve import MaterialCurve, material_curve
from ._pictures import save_pictures
from ._ratings import RatingsTable, read_ratings
from ._recommend import Recommender, recommend
from ._representatives import Representatives, representatives
from ._scene_files import read_cube, read_mask
from ._scene_output import save_maps, save_spectra
from ._topic_changes import TopicChanges, topic_changes
from ._topic_files import load_topics, pyldavis, save_table, save_topics
from ._topic_model import TopicCurve, TopicModel, topic_curve
from ._topic_scores import TopicScores, compare_topics
from ._topics import Topics, topics
from ._unmix import Unmixing, unmix

__all__ = [
    "Corpus",
    "Cube",
    "MaterialCurve",
    "RatingsTable",
    "Recommender",
    "Representatives",
    "TopicChanges",
    "TopicCurve",
    "TopicModel",
    "TopicScores",
    "Topics",
    "Unmixing",
    "archetypes",
    "as_corpus",
    "compare_topics",
    "load_topics",
    "material_curve",
    "pyldavis",
    "read_corpus",
    "read_cube",
    "read_mask",
    "read_ratings",
    "recommend",
    "representatives",
    "save_maps",
    "save_pictures",
    "save_spectra",
    "save_table",
    "save_topics",
    "topic_changes",
    "topic_curve",
    "topics",
    "unmix",
]
