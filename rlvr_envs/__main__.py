"""``python -m rlvr_envs`` is ``rlvr``."""

from __future__ import annotations

import sys

from rlvr_envs.cli import main

if __name__ == "__main__":
    sys.exit(main())
