"""Kernels that make D by whole rows: of A where there is no product, of a product's sums else."""
