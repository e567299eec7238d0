# hologram_torch/graph/__init__.py: graphs as Python writes them: dtypes, symbolic sizes, builder
