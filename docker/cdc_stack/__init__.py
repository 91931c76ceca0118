"""A whole installation: Spark, Spark Connect, an S3 store, PostgreSQL and Airflow.

One description of its services makes both a compose file and, on one machine without Docker, the
same services as processes on loopback.
"""
