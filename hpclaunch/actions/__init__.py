"""The story of each verb: clock, folders and environment come in, values go out; nothing is printed."""
