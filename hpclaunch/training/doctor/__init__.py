"""What every rank of ``hpclaunch doctor``'s probe job runs; it needs nothing but Python, and tells what is missing."""
