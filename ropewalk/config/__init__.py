"""Load TOML and overrides against a schema it is given; knows no section itself."""
