"""Values in, lines for people out. Pure."""
