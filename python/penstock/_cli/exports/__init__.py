"""`penstock export`: the command, and a module for each group of kinds."""
