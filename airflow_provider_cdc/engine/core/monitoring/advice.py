"""What to do about the condition of a stream, as the pages on operations say it."""

from __future__ import annotations

import shlex

from .conditions import Condition
from .status_snapshot import Advice


def advice_on(
    condition: Condition,
    stream: str,
    *,
    can_be_read: bool,
    last_consumer: str | None,
    upsert_table: str | None,
) -> Advice | None:
    """What an operator does about ``condition``. ``None``: nothing has to be done.

    :param can_be_read: its change set can be read, so that nothing is lost
    :param last_consumer: ``<dag_id>/<task_id>`` if a task named no other consumer
    """
    match condition:
        case Condition.STALE if not can_be_read:
            return Advice(
                "Changes that it did not consume are lost to it. Recover each target: only the rows"
                " that differ are written. Name the target and its key.",
                f"engine.recover_stream({stream!r}, 'lake.the_target', key=['id'],"
                " consumer='repair')",
            )
        case Condition.STALE:
            return _run("stale_after has passed, and nothing is lost yet", last_consumer)
        case Condition.UNREACHABLE:
            return Advice(
                "Its source did not answer. Check the network, the address and the credentials of"
                " the source's store. Nothing is lost."
            )
        case Condition.DIFFERS:
            return Advice(
                "Find out who else writes to the target. Then heal it: only the rows that differ"
                " are written. Name the target and its key.",
                f"engine.verify_target({stream!r}, 'lake.the_target', key=['id'], heal=True)",
            )
        case Condition.LATE:
            return _run("Its consumer is late, paused or fails", last_consumer)
        case Condition.QUARANTINED if upsert_table is not None:
            return Advice(
                "Correct or delete the bad changes in the table's quarantine. Then release them.",
                f"engine.redrive_changes({upsert_table!r})",
            )
        case Condition.AT_RISK:
            return _run(
                "It goes stale soon. Run the maintenance of streams too, which has its source keep"
                " what it needs",
                last_consumer,
            )
        case Condition.UNSETTLED:
            return Advice(
                "A consumption failed after a part of it was applied. Run the same task again with"
                " the same SQL, which finishes it. If that fails, end it: read what `keep` means"
                " first.",
                f"engine.abort_consumption({stream!r})",
            )
        case _:
            return None


def _run(why: str, last_consumer: str | None) -> Advice:
    """To run the consumer, by the command for its DAG if a task was the last consumer."""
    dag_id, slash, _ = (last_consumer or "").partition("/")
    if not slash:
        return Advice(f"{why}. Run its consumer.")
    return Advice(
        f"{why}. Look at the last run of its consumer, and run it again.",
        f"airflow dags trigger {shlex.quote(dag_id)}",
    )
