"""The command line: parse, call one function, print. No kernel logic lives here.

Every module imports what its command needs at the moment it needs it, so that ``--help`` stays
quick; ``tests/cli/test_imports.py`` keeps it so.
"""
