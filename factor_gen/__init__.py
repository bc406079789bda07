"""How a FACTOR benchmark is made from a corpus: select, types, generate, filter, choose, and the
audit of what it gives away."""
