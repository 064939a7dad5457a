"""What runs inside the sandbox: the supervisor, the program beside it, and the bytes between them."""
