"""Fast Anchors Seeking (FAS): the index with its coreset, bounds and certificates, and Algorithm 1 of the paper."""
