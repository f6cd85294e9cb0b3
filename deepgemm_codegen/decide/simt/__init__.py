"""The CUDA-core family's part of the tree: menu, constraints, cost, search and answers."""
