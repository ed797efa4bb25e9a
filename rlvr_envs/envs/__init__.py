"""The environments, and the one loop that they share."""
