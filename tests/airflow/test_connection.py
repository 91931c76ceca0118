from __future__ import annotations

import json

import pytest
from streams import new_stream, register

from airflow_provider_cdc.engine.catalog.stream_catalog import StreamCatalog
from airflow_provider_cdc.engine.core.errors import InvalidRequest
from airflow_provider_cdc.engine.core.requirements import DELTA_PACKAGE
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.connection import CdcConnection

STATE = "file:///data/cdc"


def test_connection_with_only_a_state_folder_has_defaults():
    connection = CdcConnection.from_extra("cdc", {"state": STATE})

    assert connection == CdcConnection(conn_id="cdc", state=STATE)
    assert connection.packages == DELTA_PACKAGE
    assert connection.spark_conn_id == "spark_default"


def test_connection_without_a_state_folder_is_refused():
    with pytest.raises(InvalidRequest, match="connection cdc: has no state folder"):
        CdcConnection.from_extra("cdc", {"state": ""})


@pytest.mark.parametrize("as_text", [True, False])
def test_connection_objects_may_be_json_text(as_text):
    options = {"AWS_REGION": "eu", "AWS_ALLOW_HTTP": True}
    extra = {"state": STATE, "storage_options": json.dumps(options) if as_text else options}

    connection = CdcConnection.from_extra("cdc", extra)

    assert connection.storage_options == {"AWS_REGION": "eu", "AWS_ALLOW_HTTP": "true"}


@pytest.mark.parametrize("field", ["storage_options", "secret_storage_options"])
@pytest.mark.parametrize("value", ["{not json", "[1]", [1], 7])
def test_connection_malformed_storage_options_are_refused_but_not_shown(field, value):
    with pytest.raises(InvalidRequest, match=f"malformed field {field}") as caught:
        CdcConnection.from_extra("cdc", {"state": STATE, field: value})

    assert str(value) not in str(caught.value)


def test_connection_with_jars_fetches_no_package():
    assert CdcConnection.from_extra("cdc", {"state": STATE, "jars": "/d.jar"}).packages is None


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.azure.account.key.lake.dfs.core.windows.net",
        "spark.hadoop.fs.azure.sas.files.lake.blob.core.windows.net",
        "spark.hadoop.google.cloud.auth.service.account.private.key",
        "spark.my.private_key",
        "spark.my.passphrase",
        "spark.x.password",
        "spark.openlineage.transport.auth.apiKey",
        "spark.my.api.key",
        "spark.my.api_key",
        "spark.sql.catalog.rest.credential",
        "spark.openlineage.transport.headers.Authorization",
    ],
)
def test_connection_secret_among_the_plain_settings_is_refused(key):
    with pytest.raises(InvalidRequest, match="move it to the field secret_conf"):
        CdcConnection.from_extra("cdc", {"state": STATE, "conf": {key: "hidden"}})


@pytest.mark.parametrize(
    "address", ["https://user:word@nexus/maven", "https://a/maven,https://word@nexus:8081/maven"]
)
def test_connection_repository_address_with_a_user_is_refused(address):
    with pytest.raises(InvalidRequest, match="Ivy settings file") as caught:
        CdcConnection.from_extra("cdc", {"state": STATE, "repositories": address})
    assert "word@" not in str(caught.value)


@pytest.mark.parametrize("field", ["jars", "archives", "py_files", "entry_point"])
def test_connection_password_in_an_argument_is_refused(field):
    address = "s3a://lake/a.zip,https://user:word@nexus/b.zip"
    with pytest.raises(InvalidRequest, match=f"in its field {field}") as caught:
        CdcConnection.from_extra("cdc", {"state": STATE, field: address})
    assert "word@" not in str(caught.value)


def test_connection_password_in_the_value_of_a_setting_is_refused():
    conf = {"spark.jars.repositories": "https://user:word@nexus/maven"}
    with pytest.raises(InvalidRequest, match="move it to the field secret_conf") as caught:
        CdcConnection.from_extra("cdc", {"state": STATE, "conf": conf})
    assert "word@" not in str(caught.value)


def test_connection_container_of_a_store_is_not_a_password():
    address = "abfss://jobs@account.dfs.core.windows.net/cdc.tar.gz#cdc"
    found = CdcConnection.from_extra(
        "cdc", {"state": STATE, "archives": address, "conf": {"spark.x": address}}
    )
    assert (found.archives, found.conf["spark.x"]) == (address, address)


def test_connection_repository_address_without_a_user_is_accepted():
    address = "https://nexus:8081/maven,file:///lake/m2/a@b"
    assert CdcConnection.from_extra("cdc", {"state": STATE, "repositories": address}).repositories


def test_connection_settings_that_only_refer_to_a_secret_are_accepted():
    conf = {
        "spark.kubernetes.driver.secretKeyRef.OPTIONS": "cdc:options",
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.example.Provider",
        "spark.security.credentials.hive.enabled": "false",
        "spark.executorEnv.GOOGLE_APPLICATION_CREDENTIALS": "/etc/key.json",
    }

    assert CdcConnection.from_extra("cdc", {"state": STATE, "conf": conf}).conf == conf


@pytest.mark.parametrize(
    "key",
    [
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "aws_session_token",
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_MASTER_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "sas_key",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "connection_string",
        "key",
        "api_key",
        "credential",
    ],
)
def test_connection_secret_among_the_plain_storage_options_is_refused(key):
    with pytest.raises(
        InvalidRequest, match="move it to the field secret_storage_options"
    ) as caught:
        CdcConnection.from_extra("cdc", {"state": STATE, "storage_options": {key: "hidden"}})

    assert "hidden" not in str(caught.value)


def test_connection_storage_options_that_hold_no_secret_are_accepted():
    options = {
        "AWS_REGION": "eu-central-1",
        "AWS_ENDPOINT_URL": "http://store:9000",
        "AWS_WEB_IDENTITY_TOKEN_FILE": "/var/run/token",
        "AZURE_STORAGE_ACCOUNT_NAME": "lake",
        "GOOGLE_SERVICE_ACCOUNT": "/etc/key.json",
        "GOOGLE_APPLICATION_CREDENTIALS": "/etc/key.json",
    }

    extra = {"state": STATE, "storage_options": options}

    assert CdcConnection.from_extra("cdc", extra).storage_options == options


def test_connection_secret_storage_options_override_the_plain_ones():
    extra = {
        "state": STATE,
        "storage_options": {"AWS_REGION": "eu", "AWS_ALLOW_HTTP": True},
        "secret_storage_options": '{"AWS_SECRET_ACCESS_KEY": "hidden", "AWS_REGION": "us"}',
    }

    assert CdcConnection.from_extra("cdc", extra).store_options == {
        "AWS_REGION": "us",
        "AWS_ALLOW_HTTP": "true",
        "AWS_SECRET_ACCESS_KEY": "hidden",
    }


def test_connection_shown_as_text_hides_its_secrets():
    connection = CdcConnection.from_extra(
        "cdc",
        {
            "state": STATE,
            "secret_storage_options": {"key": "hidden1"},
            "secret_conf": {"k": "hidden2"},
        },
    )

    assert "hidden" not in repr(connection)
    assert connection.secrets == ("hidden1", "hidden2")


def test_connection_core_count_that_is_not_a_number_is_refused():
    with pytest.raises(InvalidRequest, match="executor_cores"):
        CdcConnection.from_extra("cdc", {"state": STATE, "executor_cores": "two"})


def test_connection_test_distinguishes_no_registry_from_an_empty_registry(
    define_connection, tmp_path
):
    define_connection("cdc_default", "cdc", state=str(tmp_path))
    define_connection("spark_default", "spark", "local[1]")
    expected = f"no registry of streams yet in {tmp_path}, Spark connection spark_default"
    assert CdcHook().test_connection() == (True, expected)

    stream = register(tmp_path, new_stream())
    assert CdcHook().test_connection()[1].startswith("1 streams")
    StreamCatalog(str(tmp_path), principal=stream.owner).drop_stream("s")
    assert CdcHook().test_connection()[1].startswith("0 streams")
