"""Sandboxes: one contract, several backends."""
