"""All targets, by their names; a module each."""

from tests.fuzz import cloud_events, yaml_bytes

TARGETS = {target.name: target for target in (cloud_events.TARGET_EVENTS, yaml_bytes.TARGET)}
