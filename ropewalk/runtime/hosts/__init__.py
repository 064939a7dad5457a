"""Where workers live: in the driver's process (inline) or in processes of this machine (local)."""
