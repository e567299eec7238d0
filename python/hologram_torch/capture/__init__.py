# hologram_torch/capture/__init__.py: what changes the graphs that Dynamo and AOTAutograd capture
