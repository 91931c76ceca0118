"""The session settings that decide the meaning of a view's text.

Spark stores with each view the settings under which it was created. Every session reads the text of
the view under these settings. A setting that is not stored has its default value, even if the
session sets it.
"""

from __future__ import annotations

from collections.abc import Mapping

TIME_ZONE = "spark.sql.session.timeZone"
CASE_SENSITIVE = "spark.sql.caseSensitive"
NAMES_AS_PATTERNS = "spark.sql.parser.quotedRegexColumnNames"

# The defaults of Spark 4.2. The time zone has no default here: Spark stores it with every view.
_DEFAULTS = {
    CASE_SENSITIVE: "false",
    NAMES_AS_PATTERNS: "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
}
_FAMILIES = ("spark.sql.ansi.", "spark.sql.function.", "spark.sql.legacy.", "spark.sql.parser.")


def view_settings(kept: Mapping[str, str]) -> dict[str, str]:
    """The settings under which the text of a view is read.

    :param kept: the settings that Spark stores with the view
    """
    decisive = {
        name: value
        for name, value in kept.items()
        if name == TIME_ZONE or name in _DEFAULTS or name.startswith(_FAMILIES)
    }
    return dict(sorted((_DEFAULTS | decisive).items()))
