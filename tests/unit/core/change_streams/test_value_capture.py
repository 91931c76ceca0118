"""Each value capture type holds what Spanner documents for each kind of change."""

from __future__ import annotations

import pytest

from airflow_provider_cdc.engine.core.change_streams.value_capture import (
    ModType,
    ValueCaptureType,
    captured_values,
)

# For each kind of change: new values, old values, columns beside the key in the types.
MATRIX = {
    "OLD_AND_NEW_VALUES": {
        "INSERT": "all none all",
        "UPDATE": "modified modified modified",
        "DELETE": "none all all",
    },
    "NEW_VALUES": {
        "INSERT": "all none all",
        "UPDATE": "modified none modified",
        "DELETE": "none none all",
    },
    "NEW_ROW": {
        "INSERT": "all none all",
        "UPDATE": "all none all",
        "DELETE": "none none all",
    },
    "NEW_ROW_AND_OLD_VALUES": {
        "INSERT": "all none all",
        "UPDATE": "all modified all",
        "DELETE": "none all all",
    },
}


@pytest.mark.parametrize("mod", list(ModType))
@pytest.mark.parametrize("capture", list(ValueCaptureType))
def test_record_holds_what_its_capture_type_documents(
    capture: ValueCaptureType, mod: ModType
) -> None:
    found = captured_values(capture, mod)
    assert f"{found.new} {found.old} {found.types}" == MATRIX[capture][mod]
