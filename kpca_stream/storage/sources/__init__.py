"""One module for each kind of table that rows can be read from."""
