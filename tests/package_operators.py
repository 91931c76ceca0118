"""The operators that the package has."""

from __future__ import annotations

from importlib import import_module
from inspect import getmembers, isclass
from pkgutil import iter_modules

from airflow.sdk import BaseOperator

from airflow_provider_cdc import operators as package


def package_operators() -> set[type[BaseOperator]]:
    """The operators of the package that a DAG author writes."""
    # All of them before the first look: a base class has no subclasses before that.
    modules = [
        import_module(f"{package.__name__}.{found.name}")
        for found in iter_modules(package.__path__)
    ]
    members = (kind for module in modules for _, kind in getmembers(module, isclass))
    return {
        kind
        for kind in members
        if issubclass(kind, BaseOperator)
        and kind.__module__.startswith(package.__name__)
        and not kind.__subclasses__()
    }
