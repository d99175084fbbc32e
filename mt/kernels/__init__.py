"""Numerical building blocks that attention and models share; they know nothing of either."""
