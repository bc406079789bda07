"""What the whole project stands on: errors, files, tables, statistics, published data. It imports
nothing else of the project."""
