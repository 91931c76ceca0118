"""The code in README and the pages runs, their links work, and the reference is complete."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import fields
from importlib import import_module
from operator import attrgetter
from pathlib import Path
from typing import Any

import pyspark
import pytest
from airflow.sdk import BaseOperator

from airflow_provider_cdc.engine import Engine, StreamCatalog, Transaction
from airflow_provider_cdc.engine.core.requirements import DELTA_PACKAGE
from airflow_provider_cdc.hooks.cdc import CdcHook
from airflow_provider_cdc.hooks.connection import CdcConnection
from airflow_provider_cdc.hooks.stale_stream import StaleStreamHook

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
MAVEN = re.compile(r"\b(?:io|org|com)\.[\w.]+:[\w.-]+:\d[\w.]*")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)

REFERENCE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([\w.]+)` \| [^|]+ \|([^|]*)\|$", re.MULTILINE)
OWNERS = {"Transaction": Transaction, "StreamCatalog": StreamCatalog}
HOOKS = {"CdcHook": CdcHook, "StaleStreamHook": StaleStreamHook}


def blocks() -> list[Any]:
    return [
        pytest.param(text, id=f"{page.relative_to(ROOT)}-{number}")
        for page in PAGES
        for number, text in enumerate(PYTHON.findall(page.read_text(encoding="utf-8")), start=1)
    ]


@pytest.mark.parametrize("text", blocks())
def test_example_compiles_and_its_imports_exist(text: str) -> None:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                import_module(alias.name)
        elif isinstance(node, ast.ImportFrom):
            assert node.module is not None
            module = import_module(node.module)
            missing = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            assert not missing, node.module


def anchors(page: Path) -> set[str]:
    headings = HEADING.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    words = (re.sub(r"[^\w\- ]", "", heading).strip().lower() for heading in headings)
    return {word.replace(" ", "-") for word in words}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_of_a_page_point_to_existing_targets(page: Path) -> None:
    links = LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8")))
    for link in links:
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_jars_that_pages_name_fit_the_spark_that_is_required() -> None:
    named = {found for page in PAGES for found in MAVEN.findall(page.read_text(encoding="utf-8"))}
    jars = Path(pyspark.__file__).parent / "jars"
    (hadoop,) = jars.glob("hadoop-client-api-*.jar")
    version = hadoop.stem.removeprefix("hadoop-client-api-")

    assert named == {DELTA_PACKAGE, f"org.apache.hadoop:hadoop-aws:{version}"}


def documented() -> dict[str, list[str]]:
    """Each name in the reference, with its documented arguments."""
    return {name: re.findall(r"`(\w+)`", given) for name, given in ROW.findall(REFERENCE)}


def named(name: str) -> Callable[..., Any]:
    """What the reference means by ``name``: a method of the engine where it names no owner."""
    owner, _, rest = name.partition(".")
    if not rest:
        return getattr(Engine, name)
    if known := (OWNERS | HOOKS).get(owner):
        return getattr(known, rest)
    module, _, attribute = name.rpartition(".")
    return attrgetter(attribute)(import_module(f"airflow_provider_cdc.{module}"))


def arguments(what: Callable[..., Any]) -> list[str]:
    function = what.__init__ if inspect.isclass(what) else what
    parameters = inspect.signature(function).parameters.values()
    kept = (item for item in parameters if item.kind is not inspect.Parameter.VAR_KEYWORD)
    return [item.name for item in kept if item.name != "self"]


@pytest.mark.parametrize("name", documented())
def test_reference_gives_the_arguments_of_each_callable(name: str) -> None:
    assert documented()[name] == arguments(named(name))


def operators() -> set[str]:
    folder = ROOT / "airflow_provider_cdc/operators"
    modules = [
        import_module(f"airflow_provider_cdc.operators.{file.stem}")
        for file in folder.glob("[a-z]*.py")
    ]
    return {
        f"{module.__name__.removeprefix('airflow_provider_cdc.')}.{name}"
        for module in modules
        for name, item in inspect.getmembers(module, inspect.isclass)
        if issubclass(item, BaseOperator) and item.__module__ == module.__name__
    }


def test_reference_names_every_operator() -> None:
    assert {name for name in operators() if f"`{name}`" not in REFERENCE} == set()


def test_reference_names_every_method_of_engine_and_transaction() -> None:
    for owner, prefix in ((Engine, ""), (Transaction, "Transaction.")):
        methods = inspect.getmembers(owner, inspect.isfunction)
        public = {f"{prefix}{name}" for name, _ in methods if not name.startswith("_")}
        assert public - documented().keys() == set()


def test_page_on_connections_names_every_field() -> None:
    page = (ROOT / "docs/how-to/connect.md").read_text(encoding="utf-8")
    rows = "".join(line for line in page.splitlines() if line.startswith("|"))
    known = {item.name for item in fields(CdcConnection)} - {"conn_id"}

    assert {name for name in known if f"`{name}`" not in rows} == set()


def test_pages_of_how_to_and_explanation_are_linked_from_the_readme() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    # Only the site has these: generated references, and copies of the pages of the root folder.
    of_the_site = {"api", "readme.md", "contributing.md", "changelog.md"}
    pages = {
        str(page.relative_to(ROOT))
        for page in PAGES[1:]
        if not {"decisions", *of_the_site} & set(page.parts)
    }

    assert {page for page in pages if f"({page})" not in readme} == set()
