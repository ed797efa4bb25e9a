"""Records of episodes."""
