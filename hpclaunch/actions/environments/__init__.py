"""Environments that hpclaunch makes: how they are built, where they are kept, and which one a run names."""
