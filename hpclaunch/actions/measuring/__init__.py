"""What a program does at several sizes or settings: plan, profile, scale, search."""
