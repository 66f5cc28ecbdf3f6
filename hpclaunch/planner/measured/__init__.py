"""What was measured of a job: figures of its model, calibrations, and what finished runs add."""
