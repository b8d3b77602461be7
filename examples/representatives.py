"""Select five wines that represent 178: rows of a table whose columns have very different scales.

Run: python examples/representatives.py [--data TABLE.csv] [-k K]   (needs pandas)
Without --data the table is the wine recognition data that ships with scikit-learn. TABLE.csv has names in its
first column.
"""

from __future__ import annotations

import argparse

import pandas as pd
from sklearn.datasets import load_wine

import fastanchors as fa


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="a table of your own")
    parser.add_argument("-k", type=int, default=5, help="how many rows")
    options = parser.parse_args()
    if options.data is not None:
        table = pd.read_csv(options.data, index_col=0)
    else:
        wine = load_wine(as_frame=True)
        table = wine.data.set_index(
            wine.target.map(lambda kind: f"cultivar {kind}") + " no. " + wine.data.index.astype(str)
        )
    found = fa.apps.representatives(table, options.k, non_numeric="drop")
    print(found)
    print(f"their mixtures miss {found.relative_error:.0%} of the spread of the table\n")
    print(table.iloc[found.indices, :6].to_string())


if __name__ == "__main__":
    main()
