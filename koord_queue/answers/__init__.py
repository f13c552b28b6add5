"""What the APIs of Koord-Queue answer, as frozen values: only the fields that are shown.

Unknown fields are ignored and absent ones have defaults, so that a command line and a scheduler of
different versions understand each other.
"""
