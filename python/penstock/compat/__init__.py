"""Other servers' Python interfaces, on top of Penstock's public one."""
