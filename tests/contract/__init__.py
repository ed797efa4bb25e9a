"""Contracts over everything that is registered."""
