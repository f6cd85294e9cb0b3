"""Tests of the verification harness."""
