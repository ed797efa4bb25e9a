"""Pure functions from what happened to what a trainer learns from."""
