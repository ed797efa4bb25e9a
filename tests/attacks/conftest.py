"""What tests of attacks share: the sandboxes' fixtures."""

from tests.sandbox.conftest import namespaces, places

__all__ = ["namespaces", "places"]
