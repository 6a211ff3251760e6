"""Hostile input for the program: files and commands, each determined by a seed and a number, and checks of outcomes."""
