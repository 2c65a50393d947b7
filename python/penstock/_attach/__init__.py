"""Models that another process of this machine attaches: how both sides meet, and what they say."""
