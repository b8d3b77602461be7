"""``SeparableNMF``, a scikit-learn estimator: ``fit`` finds the anchors, ``transform`` encodes rows in them."""

from ._separable_nmf import SeparableNMF

__all__ = ["SeparableNMF"]
