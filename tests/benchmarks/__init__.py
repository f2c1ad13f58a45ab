"""Benchmarks: one file a question, one command for each. They measure; they are no timed tests."""
