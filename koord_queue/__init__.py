"""The command line and the client of Koord-Queue."""
