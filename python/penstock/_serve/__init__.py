"""`penstock serve`: the foreground run, its banner and its signals."""
