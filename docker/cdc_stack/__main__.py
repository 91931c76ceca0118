"""The commands ``python -m cdc_stack compose`` and ``python -m cdc_stack up``."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Annotated

import typer

from . import compose as compose_file
from . import settings
from .connections import variable
from .local_stack import KEY, SECRET, LocalStack, local_stack

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.command()
def compose(
    file: Annotated[Path, typer.Option(help="The file to write.")] = compose_file.FILE,
) -> None:
    """Write the compose file."""
    file.write_text(compose_file.text(), encoding="utf-8")
    typer.echo(f"cdc_stack: wrote {file}")


@app.command()
def up(
    folder: Annotated[Path, typer.Option(help="The services keep their files here.")],
) -> None:
    """Run the S3 store and Spark on this machine until Ctrl-C, and print their addresses."""
    # Without a handler, a SIGTERM would end this process and leave its services.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with local_stack(folder.resolve()) as stack:
            typer.echo(_addresses(stack))
            signal.pause()
    except KeyboardInterrupt:
        typer.echo("cdc_stack: all services have ended; their files remain")


def _addresses(stack: LocalStack) -> str:
    lines = [
        f"S3 store       http://{stack.s3}, bucket {settings.BUCKET}",
        f"keys           {KEY} / {SECRET}",
        f"Spark master   {stack.master}, page {stack.master_page}",
        f"Spark Connect  {stack.connect_url}",
        f"files, logs    {stack.folder}",
        "",
        "Airflow's connections, for the environment of all its parts. Jobs of cdc_default run on",
        "the Spark Connect server, those of cdc_cluster by spark-submit:",
        "",
        *(
            f"export {variable(conn_id)}='{json.dumps(item)}'"
            for conn_id, item in stack.connections().items()
        ),
        "",
        "Ctrl-C ends all services.",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    app()
