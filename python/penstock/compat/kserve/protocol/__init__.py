"""What travels: tensors and messages."""
