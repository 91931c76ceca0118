"""A server that speaks S3, on loopback, for all tests of this folder."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

REGION = "eu-central-1"
BUCKET = "lake"
_START_SECONDS = 60


@pytest.fixture(scope="session")
def options() -> Iterator[dict[str, str]]:
    """Storage options for the server, which is another process: delta-rs blocks Python's threads
    while it waits for answers.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _make_bucket(url)
        yield {
            "AWS_ACCESS_KEY_ID": "tests",
            "AWS_SECRET_ACCESS_KEY": "tests",
            "AWS_ENDPOINT_URL": url,
            "AWS_REGION": REGION,
            "AWS_ALLOW_HTTP": "true",
        }
    finally:
        server.kill()
        server.wait()


@pytest.fixture(params=["s3", "s3a"])
def root(request: pytest.FixtureRequest) -> str:
    """A folder for one test only."""
    return f"{request.param}://{BUCKET}/{uuid.uuid4().hex}/täble 1"


def _make_bucket(url: str) -> None:
    client = boto3.client(
        "s3",
        endpoint_url=url,
        region_name=REGION,
        aws_access_key_id="tests",
        aws_secret_access_key="tests",
    )
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            client.create_bucket(
                Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION}
            )
        except EndpointConnectionError:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
        else:
            break
    client.close()
