"""Pure advice: the guidelines of distributed training as small functions, each with its source; it launches nothing."""
