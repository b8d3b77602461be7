"""Obvious twins: the slow, plain form of everything fast in the library. Tests compare the two."""
