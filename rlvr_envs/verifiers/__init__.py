"""Verifiers: one file for each thing that is read of a frozen state."""
