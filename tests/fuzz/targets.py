"""All targets, by their names; a module each."""

from tests.fuzz import yaml_bytes

TARGETS = {target.name: target for target in (yaml_bytes.TARGET,)}
