"""An experiment as a value: read, checked and turned into objects."""
