"""Constants in the formulas of optimizers, which are the same for TensorFlow and for PyTorch; it imports neither."""

ADAMW_EPSILON = 1e-7
"""Keras's, not PyTorch's 1e-8, so that a job has the same steps with both."""
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the polynomial that brings all singular values near 1 in five rounds (Jordan et al. 2024)."""
ROUNDS = 5
ADAMS_SIZE = 0.2
"""The root mean square of a step of Adam, which a matrix's step gets too (Liu et al. 2025, arXiv 2502.16982, 2.2)."""
