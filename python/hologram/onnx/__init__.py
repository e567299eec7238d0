# hologram/onnx/__init__.py: ONNX models as graphs of Hologram
# mypy: ignore-errors
"""A model (`model`) is read from protobuf's wire format (`read`, `wire`), its nodes run on stand-ins for arrays (`run`), and a row of
`table` says for each operator how it becomes operations of the graph. Rows are in the modules named in `FAMILIES`. What a process found
out about a file is kept for others (`kept`), which then import nothing of this."""
