"""Its place puts tests/ on the import path, so that every folder of tests finds the modules that they share."""
