"""What the whole project stands on: errors, files, tables, settings, published data. It imports
nothing else of the project."""
