"""Foreign task sets become ours."""
