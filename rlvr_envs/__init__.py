"""Environments with verifiable rewards for training multi-turn LLM agents."""
