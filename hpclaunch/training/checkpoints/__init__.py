"""Checkpoints: what they contain, how they are written completely, and how a run resumes from them."""
