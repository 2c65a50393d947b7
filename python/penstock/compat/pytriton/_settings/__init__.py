"""Settings of PyTriton's server, and their translation to Penstock's."""
