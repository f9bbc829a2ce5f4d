"""Asks the rules; fills in what they ask about."""
