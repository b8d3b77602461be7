"""The greedy engine: lazy distances of rows to a span, a cone or a hull, the tie rule, selection rules and
non-negative least squares."""
