"""Thousands of dead letters and retries are the point here: nobody reads their log lines."""

import logging

import pytest
import structlog


@pytest.fixture(autouse=True)
def silence(logs_as_before: None) -> None:
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
