"""Faults reported publicly against kernels of this kind, each as a test with its id."""
