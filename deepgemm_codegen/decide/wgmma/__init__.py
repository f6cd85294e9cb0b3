"""The wgmma family's part of the tree: menu, constraints, cost, search and answers.

It mirrors what stands one level up for mma.sync. Copies have no question left here (TMA moves
128-byte rows or nothing), so a candidate is a tile, its consumers, its ring, its cluster and its
raster, and the search is a walk over a hundred tiles.
"""
