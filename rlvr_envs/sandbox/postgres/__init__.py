"""PostgreSQL as the substrate of a world: one server, many short-lived clones."""
