"""Images and layers by digest: built, stored, verified, compared."""
