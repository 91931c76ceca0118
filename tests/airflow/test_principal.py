"""A job uses the principal of its Airflow connection."""

from __future__ import annotations

import pytest
from streams import new_stream, register

from airflow_provider_cdc.engine import StreamAccessDenied
from airflow_provider_cdc.hooks.cdc import CdcHook, request_for
from airflow_provider_cdc.jobs.model import StreamHasData


def test_job_and_catalog_act_as_the_principal_of_the_connection(tmp_path, define_connection):
    stream = new_stream("s", owner="olga", readers=("ralf",), consumers=())
    register(tmp_path / "state", stream)
    for principal in ("ralf", "emil"):
        define_connection(principal, "cdc", state=str(tmp_path / "state"), principal=principal)
        hook = CdcHook(principal)
        assert request_for(hook.settings, StreamHasData("s")).principal == principal
        assert hook.catalog().principal == principal
        with pytest.raises(StreamAccessDenied, match=f"{principal} may not change or drop"):
            hook.catalog().drop_stream("s")
    with pytest.raises(StreamAccessDenied, match="emil may not read"):
        CdcHook("emil").catalog().probe_stream("s")
