"""SQLite as a second engine: a file for each episode, opened by processes of ours."""
