"""What is known for certain, and reads compared with it."""
