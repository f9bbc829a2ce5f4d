"""Answers to "why?", step by step: does a project get to an agent, as whom does an Application sync."""
