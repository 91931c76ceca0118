"""Storage options by the names of fsspec.

The options of a state folder go to two libraries: to delta-rs, which writes the registry, and to
fsspec, which opens files. Each has its own names, so those of delta-rs are translated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...core.errors import InvalidRequest

_PREFIXES = ("aws_", "google_", "azure_")
_REGION = "region_name"
_SERVICE_ACCOUNT_KEY = "service_account_key"


class _Store(NamedTuple):
    """fsspec's names of options, by delta-rs' names without their prefix. If two names mean the
    same option, the first one wins. ``defaults`` are the options of fsspec that the engine sets.
    """

    prefix: str
    names: Mapping[str, str]
    defaults: Mapping[str, Any] = {}


_S3 = _Store(
    "aws_",
    {
        "access_key_id": "key",
        "secret_access_key": "secret",
        "session_token": "token",
        "token": "token",
        "endpoint_url": "endpoint_url",
        "endpoint": "endpoint_url",
        "region": _REGION,
        "default_region": _REGION,
    },
    # With a higher number, it asks for the size of each file first, to read parts of large files at
    # once.
    {"max_concurrency": 1},
)
_GCS = _Store(
    "google_",
    {
        _SERVICE_ACCOUNT_KEY: "token",
        "service_account": "token",
        "service_account_path": "token",
        "application_credentials": "token",
    },
)
_AZURE = _Store(
    "azure_",
    {
        "account_name": "account_name",
        "account_key": "account_key",
        "access_key": "account_key",
        "master_key": "account_key",
        "sas_token": "sas_token",
        "sas_key": "sas_token",
        "tenant_id": "tenant_id",
        "authority_id": "tenant_id",
        "client_id": "client_id",
        "client_secret": "client_secret",
    },
)
_STORES = {"s3": _S3, "gs": _GCS, "gcs": _GCS, "abfs": _AZURE, "az": _AZURE}
_OTHER = _Store("", {})


def fsspec_options(options: Mapping[str, Any], scheme: str) -> dict[str, Any]:
    """``options`` for fsspec's library for ``scheme``: s3fs, gcsfs, adlfs or any other.

    Names that begin with ``AWS_``, ``GOOGLE_`` or ``AZURE_``, in capitals or not, belong to
    delta-rs. They are translated, or left out if fsspec does not have such an option. Short names
    of delta-rs (``access_key_id``) are translated too. Other names belong to fsspec, and override
    the translated ones.

    :raises InvalidRequest: the key of a service account is not JSON; the message does not repeat it
    """
    store = _STORES.get(scheme, _OTHER)
    given: dict[str, Any] = {}
    own: dict[str, Any] = {}
    for name, value in options.items():
        lower = name.lower()
        short = lower.removeprefix(store.prefix).removeprefix("storage_")
        if short in store.names:
            given[short] = value
        elif not lower.startswith(_PREFIXES):
            own[name] = value
    found: dict[str, Any] = {}
    for short, name in store.names.items():
        if short in given:
            found.setdefault(name, _value(short, given[short]))
    if _REGION in found:
        region = {_REGION: found.pop(_REGION)}
        own["client_kwargs"] = {**region, **own.get("client_kwargs", {})}
    return {**store.defaults, **found, **own}


def _value(short: str, value: Any) -> Any:
    if short != _SERVICE_ACCOUNT_KEY or not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except json.JSONDecodeError:
        parsed = None
    if not isinstance(parsed, dict):
        raise InvalidRequest(
            "storage options",
            "do not hold a service account key",
            cause="GOOGLE_SERVICE_ACCOUNT_KEY is not a JSON object",
            fix="give the content of the key's file, or its path as GOOGLE_SERVICE_ACCOUNT",
        )
    return parsed
