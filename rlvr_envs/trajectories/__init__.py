"""The record of an episode: its lines, on disk and in memory."""
