"""``fastanchors recommend``: recommend items to users from a file of ratings, next to the most popular items."""

from __future__ import annotations

from pathlib import Path

import click

from .._text import plural
from ._streams import ADDRESS
from ._terminal import name_in_table, working
from .app import emit, json_option

__all__ = ["recommend"]

_NAME_WIDTH = 38


@click.command()
@click.argument("ratings", type=ADDRESS)
@click.option("--user", "users", multiple=True, required=True, help="Name of a user in the file; may be repeated.")
@click.option("-n", "count", type=click.IntRange(1), default=10, show_default=True, help="Number of items.")
@click.option("-k", "tastes", type=click.IntRange(1), help="Rank; by default 20, or less for small tables.")
@click.option("--user-column", help="The heading of the column of users; by default the first.")
@click.option("--item-column", help="The heading of the column of items; by default the second.")
@click.option("--rating-column", help="The heading of the column of ratings; by default the third.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Random seed.")
@json_option
def recommend(
    ratings: Path,
    users: tuple[str, ...],
    count: int,
    tastes: int | None,
    user_column: str | None,
    item_column: str | None,
    rating_column: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Recommend items that each USER has not rated yet, best first, next to the most popular ones.

    RATINGS is a text file with one rating per line: user, item, rating (as in MovieLens), or a table whose columns are
    chosen by their headings. Popularity is a strong baseline: if it works as well for your users, prefer it.
    """
    from ..apps import read_ratings
    from ..apps import recommend as run

    with working(f"reading {ratings.name}"):
        table = read_ratings(ratings, user=user_column, item=item_column, rating=rating_column)
        found = run(table, list(users), count, k=tastes, rng=seed)
        popular = table.popular(list(users), count)
    if as_json:
        answers = [
            {"user": user, "items": _present(items), "popular": _present(peers)}
            for user, items, peers in zip(users, found.tolist(), popular.tolist(), strict=True)
        ]
        emit({"users": len(table.users), "items": len(table.items), "ratings": table.A.nnz, "answers": answers})
        return
    users_shown, items_shown = plural(len(table.users), "user"), plural(len(table.items), "item")
    click.echo(f"{ratings.name}: {users_shown}, {items_shown}, {plural(table.A.nnz, 'rating')}")
    for user, items, peers in zip(users, found.tolist(), popular.tolist(), strict=True):
        click.echo(
            f"\n  {'for user ' + name_in_table(user, _NAME_WIDTH - 9):<{_NAME_WIDTH}}  most popular, not yet rated"
        )
        for item, peer in zip(items, peers, strict=True):
            mine, theirs = (name_in_table(name or "", _NAME_WIDTH) for name in (item, peer))
            click.echo(f"  {mine:<{_NAME_WIDTH}}  {theirs}".rstrip())


def _present(items: list[str | None]) -> list[str]:
    return [item for item in items if item is not None]
