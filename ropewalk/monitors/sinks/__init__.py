"""Where metrics go: one file per destination, all offline unless asked otherwise."""
