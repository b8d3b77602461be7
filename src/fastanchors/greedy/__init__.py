"""The greedy engine: residuals of rows, the rule of ties, selection rules and non-negative least squares."""
