"""mt: train your own translator and look at its attention."""

__version__ = "0.1.0"
