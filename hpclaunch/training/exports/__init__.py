"""A trained model as files that need no hpclaunch; it trains nothing and communicates with no rank."""
