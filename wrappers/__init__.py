"""Layers around an environment, one file each; registry.yaml stacks them."""
