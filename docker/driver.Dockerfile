# A Spark driver (and executor) image with the engine: for cluster mode on Kubernetes.
# Build from the project's root: docker build -f docker/driver.Dockerfile -t cdc-driver .
FROM apache/spark:4.2.0-scala2.13-java17-python3-ubuntu

USER root
WORKDIR /opt/cdc
COPY pyproject.toml README.md LICENSE ./
COPY airflow_provider_cdc ./airflow_provider_cdc
RUN python3 -m pip install --no-cache-dir .
USER spark
