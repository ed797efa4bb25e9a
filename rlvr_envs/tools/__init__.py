"""Tools: schema, validation, dispatch."""
