"""Measurements of a job: figures of its model, calibrations, and what finished runs add."""
