"""Files as objects: find them, watch them, parse and validate them, and derive the objects that they define."""
