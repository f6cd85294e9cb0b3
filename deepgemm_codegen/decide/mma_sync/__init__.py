"""The mma.sync family's part of the tree: menu, constraints, cost, search and answers."""
