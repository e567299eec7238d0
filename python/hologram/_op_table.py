# hologram/_op_table.py: the operations of graphs, from the native table
"""OPERATIONS by name, and the names of those that are functions of one or two floats."""

from typing import Any

from hologram import _core

OPERATIONS: dict[str, dict[str, Any]] = {row["name"]: row for row in _core.op_table()}
UNARY_FUNCTIONS = tuple(name for name, row in OPERATIONS.items() if row["function"] and row["arity"] == 1)
BINARY_FUNCTIONS = tuple(name for name, row in OPERATIONS.items() if row["function"] and row["arity"] == 2)
