"""Layouts of change streams for tests."""

from __future__ import annotations

import random

from airflow_provider_cdc.engine.core.change_streams.layout import Layout


def churned(seed: int, steps: int, count: int = 3) -> Layout:
    """A layout after random splits, merges and moves."""
    chance = random.Random(seed)
    layout, at = Layout.created("change stream s", 100, count), 100
    for _ in range(steps):
        at += chance.randrange(1, 5)
        one = chance.choice(layout.open)
        place = layout.open.index(one)
        match chance.choice(["split", "merge", "move"]):
            case "split" if one.keys.size > 1:
                bucket = chance.randrange(one.keys.low + 1, one.keys.high)
                layout = layout.split(one, bucket, at)
            case "merge" if place + 1 < len(layout.open):
                several = layout.open[place : place + chance.randrange(2, 4)]
                layout = layout.merge(several, at)
            case _:
                layout = layout.move(one, at)
    return layout
