"""What `rlvr bench` measures, one file a measurement."""
