"""Local stand-in of DigitalHub's SDK: functions, runs and their server processes."""
