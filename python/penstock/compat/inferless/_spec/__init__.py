"""Files and declarations of an app, read without running it."""
