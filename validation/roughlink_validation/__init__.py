"""Side-by-side runs of roughlink and ns-3 3.44 on the same scenario."""
