"""Import of user files and modules, and their reimport."""
