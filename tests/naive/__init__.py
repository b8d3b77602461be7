"""Naive implementations ("twins") of everything fast in the library. Tests compare the two."""
