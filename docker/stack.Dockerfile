# The images of docker/compose.yaml: s3, spark and airflow.
# Built from the project's root by: docker compose -f docker/compose.yaml build
FROM python:3.11-slim-bookworm AS python
ENV PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore PIP_DISABLE_PIP_VERSION_CHECK=1

# The wheel of this project, and the versions with which it is tested.
FROM python AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY requirements/all.lock ./requirements/all.lock
COPY airflow_provider_cdc ./airflow_provider_cdc
RUN pip wheel --no-deps --wheel-dir /wheels . \
    && sed -nE 's/^([A-Za-z0-9._-]+)(\[[^]]*\])?(==.*[^ \\]) *\\?$/\1\3/p' requirements/all.lock \
       > /wheels/constraints.txt

# The S3 store.
FROM python AS s3
COPY --from=wheel /wheels/constraints.txt /wheels/constraints.txt
RUN pip install --constraint /wheels/constraints.txt ministack s3fs
RUN useradd --create-home --uid 50000 cdc && install -d -o cdc /data
USER cdc
WORKDIR /home/cdc

# The engine, with the Spark that its dependency pyspark ships.
FROM python AS engine
RUN apt-get update \
    && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
COPY --from=wheel /wheels /wheels
RUN pip install --constraint /wheels/constraints.txt /wheels/*.whl s3fs
RUN useradd --create-home --uid 50000 cdc && install -d -o cdc /data

# The jars of Delta, and those with which Spark reads s3a://. The wheel has the log store's own.
FROM engine AS jars
WORKDIR /opt/cdc
COPY requirements/delta.ivy.xml requirements/s3a.ivy.xml ./
RUN ivy=$(echo /usr/local/lib/python3.11/site-packages/pyspark/jars/ivy-*.jar) \
    && for file in delta s3a; do \
         java -jar "$ivy" -ivy "$file.ivy.xml" -types jar bundle \
           -retrieve '/opt/cdc/jars/[artifact]-[revision].[ext]' || exit 1; \
       done

# Master, workers and Spark Connect server.
FROM engine AS spark
COPY --from=jars /opt/cdc/jars /opt/cdc/jars
USER cdc
WORKDIR /home/cdc

# Airflow. Drivers that spark-submit starts run in its containers.
FROM engine AS airflow
RUN pip install --constraint /wheels/constraints.txt \
    "$(echo /wheels/*.whl)[airflow]" asyncpg psycopg2-binary
COPY --from=jars /opt/cdc/jars /opt/cdc/jars
ENV AIRFLOW_HOME=/opt/airflow
RUN install -d -o cdc /opt/airflow /opt/airflow/dags /opt/airflow/logs
USER cdc
WORKDIR /opt/airflow
