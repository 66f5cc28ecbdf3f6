"""The program of every rank of ``hpclaunch doctor``'s probe job; it needs only Python, and reports what is missing."""
