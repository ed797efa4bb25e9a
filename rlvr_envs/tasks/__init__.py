"""Tasks: their format on disk, their instances, their loading."""
