"""What a rank needs: start-up, sharded input, learning-rate rules, metrics, checkpoints; never imports the launcher.

Works in an environment that holds only Python 3.8, NumPy, TensorFlow 2.9-2.15 and Horovod. Nothing is imported here, so
that the parts that need no TensorFlow (options, shards, the readers) load without it.
"""
