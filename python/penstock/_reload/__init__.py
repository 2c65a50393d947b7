"""Reload of served code: its files, the thread that watches them, and the pid file for signals."""
