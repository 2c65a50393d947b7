"""What runs in the servers: the models, and a script for each system."""
