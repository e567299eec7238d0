# tools/site/__init__.py: what `make docs` makes of the sources beside the pages of docs/
