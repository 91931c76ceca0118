# A Spark driver (and executor) image with the engine: for cluster mode on Kubernetes.
# Build from the project's root: docker build -f docker/driver.Dockerfile -t cdc-driver .
# For tables or a state folder on another store than S3: --build-arg STORES="gcsfs" or "adlfs".
FROM apache/spark:4.2.0-scala2.13-java17-python3-ubuntu

ARG STORES="s3fs"
USER root
# The image's own Python is older than 3.11. Below the home of root no other user could read one.
ENV UV_PYTHON_INSTALL_DIR=/opt/python PIP_BREAK_SYSTEM_PACKAGES=1
RUN python3 -m pip install --no-cache-dir uv && uv venv --python 3.11 /opt/cdc/venv
WORKDIR /opt/cdc/source
COPY pyproject.toml README.md LICENSE ./
COPY airflow_provider_cdc ./airflow_provider_cdc
RUN uv pip install --no-cache --python /opt/cdc/venv/bin/python . ${STORES} \
    && chmod -R a+rX /opt/python /opt/cdc
COPY airflow_provider_cdc/jobs/entry_point.py /opt/cdc/entry_point.py
ENV PYSPARK_PYTHON=/opt/cdc/venv/bin/python PYSPARK_DRIVER_PYTHON=/opt/cdc/venv/bin/python
WORKDIR /opt/spark/work-dir
USER spark
