"""The library of a rank: start-up, sharded input, learning rates, metrics, checkpoints; it never imports the launcher.

It needs only Python 3.8, NumPy, TensorFlow 2.9-2.15 and Horovod; rank.torch_ranks and rank.jax_ranks need PyTorch or
JAX in place of the last two. This module imports nothing, so that the parts that
need no TensorFlow (options, shards, the readers) load without it.
"""
