"""What environments run inside the sandbox: plain Python with the standard library only."""
