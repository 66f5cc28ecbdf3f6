"""What a rank trains on: data sets by layout, shards, decoding, augmentation and the pipeline."""
