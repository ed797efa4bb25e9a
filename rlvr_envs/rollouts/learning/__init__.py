"""Small proofs that the reward channels teach, on real sandboxes."""
