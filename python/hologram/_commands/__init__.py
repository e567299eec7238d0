"""The commands of ``hologram``, one module for each group."""
