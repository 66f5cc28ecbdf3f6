"""How many nodes a job is worth at a site, how it trains there, and why; pure: it starts and reads nothing.

`forecasting` takes all steps of a plan in order; `submission` is the part that ``submit`` uses. What was measured
before is read by `measured`.
"""
