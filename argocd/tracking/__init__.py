"""Whose an object is."""
