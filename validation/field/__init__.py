"""Experiments of field.py in modules of their own, and the programs that they run."""
