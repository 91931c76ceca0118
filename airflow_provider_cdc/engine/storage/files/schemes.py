"""Refuses locations that this process cannot open, before a library takes them for something else.

fsspec takes a URI without two slashes (``dbfs:/t``) for a path on the local disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from fsspec import get_filesystem_class

from ...core.errors import InvalidRequest, UnsupportedEnvironment

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(//)?")
_OF_DATABRICKS = "dbfs"
# The store of tests, which has no hosts.
_WITHOUT_HOST = "memory"


def check_scheme(uri: str) -> None:
    """Refuse a URI that no installed library can open. A path without a scheme passes.

    :raises InvalidRequest: no library knows the scheme, only Databricks does, or no host or bucket
        follows the scheme
    :raises UnsupportedEnvironment: the library for the scheme is not installed
    """
    match = _SCHEME.match(uri)
    if match is None:
        return
    scheme, slashes = match[1], match[2]
    if scheme == _OF_DATABRICKS:
        raise InvalidRequest(
            f"location {uri}",
            "cannot be opened outside Databricks",
            cause="dbfs:/ is a name inside a Databricks workspace, not the address of a store",
            fix="name the address in the cloud store, such as s3a://bucket/folder; DESCRIBE DETAIL"
            " or the workspace's list of mounts shows it",
        )
    if slashes is None and scheme != _WITHOUT_HOST:
        raise InvalidRequest(
            f"location {uri}",
            "is neither a path nor the URI of a store",
            cause=f"expected two slashes and a bucket or host after {scheme}:",
            fix=f"write it like {scheme}://bucket/folder, or as an absolute path",
        )
    try:
        get_filesystem_class(scheme)
    except ValueError:
        raise InvalidRequest(
            f"location {uri}",
            "cannot be opened",
            cause=f"no store is known by the scheme {scheme}",
            fix="name it by a path, or by the scheme of S3 (s3a), Google Cloud Storage (gs) or"
            " Azure (abfss)",
        ) from None
    except ImportError as error:
        raise UnsupportedEnvironment(
            f"location {uri}",
            "cannot be opened here",
            cause=str(error),
            fix="install that library for every process that reads streams: s3fs, gcsfs or adlfs",
        ) from None


@contextmanager
def read_allowed(location: str) -> Iterator[None]:
    """Report that the store refuses to let this process read the table at ``location``.

    :raises InvalidRequest: the store refused
    """
    try:
        yield
    except PermissionError as error:
        raise InvalidRequest(
            f"table {location}",
            "cannot be read",
            cause=f"its store refuses this process: {error}",
            fix="let the identity of this process list and read that folder; a table that Unity"
            " Catalog manages can only be read through the catalog",
        ) from error
