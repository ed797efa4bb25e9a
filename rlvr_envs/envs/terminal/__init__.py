"""The terminal modality: a shell in a sandbox."""
