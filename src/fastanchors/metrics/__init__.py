"""Scores: anchor recovery, spectral angles, abundance and reconstruction errors, topic coherence."""

from ._coherence import topic_coherence, topic_uniqueness
from ._reconstruction import ReconstructionError, reconstruction_error
from ._recovery import Match, abundance_rmse, anchor_labels, anchor_recovery, matched_spectral_angle, spectral_angles

__all__ = [
    "Match",
    "ReconstructionError",
    "abundance_rmse",
    "anchor_labels",
    "anchor_recovery",
    "matched_spectral_angle",
    "reconstruction_error",
    "spectral_angles",
    "topic_coherence",
    "topic_uniqueness",
]
