"""All targets, by their names; a module each."""

from tests.fuzz import cloud_events, reviews, yaml_bytes

TARGETS = {target.name: target for target in (cloud_events.TARGET_EVENTS, reviews.TARGET, yaml_bytes.TARGET)}
