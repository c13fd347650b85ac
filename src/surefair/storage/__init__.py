"""Files on disk: archives of arrays and JSON, and files written whole or not at all."""
