# hologram/page/layout.py: where the steps of a plan stand in its picture
"""Layers from top to bottom, each step below all that it reads from. What a step writes and a distant layer reads runs through every
layer between, in a place of its own there, so that no line crosses a box."""

from __future__ import annotations

from collections import defaultdict

WIDTH, HEIGHT = 236, 58
GAP_X, GAP_Y, LANE = 28, 54, 18  # between boxes; of a line that passes through a layer
SWEEPS = 6


class Layout:
    """edges: (from, to). Afterwards: places, the upper left corner of each step; routes, by edge the points of its line."""

    def __init__(self, count: int, edges: list[tuple[int, int]]) -> None:
        self.edges = edges
        self.above: dict[int, list[int]] = defaultdict(list)
        self.below: dict[int, list[int]] = defaultdict(list)
        self.depth = self._depths(count)
        self.layers: list[list[int]] = [[] for _ in range(max(self.depth, default=-1) + 1)]
        for step in range(count):
            self.layers[self.depth[step]].append(step)
        self.count = count
        self.chains = self._chains()
        self._order()
        self.x = self._across()
        self.places = [(self.x[i] - WIDTH / 2, self._top(self.depth[i])) for i in range(count)]
        self.routes = [self._route(a, b) for a, b in edges]
        self.width = max((at + self._size(node) / 2 for node, at in self.x.items()), default=0.0) + GAP_X / 2
        self.height = self._top(len(self.layers))

    @staticmethod
    def _top(layer: int) -> float:
        return GAP_Y / 2 + layer * (HEIGHT + GAP_Y)

    def _depths(self, count: int) -> list[int]:
        depth = [0] * count
        for a, b in sorted(self.edges, key=lambda e: e[1]):  # steps stand in the order in which they run
            depth[b] = max(depth[b], depth[a] + 1)
        return depth

    def _chains(self) -> dict[int, dict[int, int]]:
        """By step the places, by layer, through which its results pass on the way to distant readers."""
        chains: dict[int, dict[int, int]] = defaultdict(dict)
        number = self.count
        for a, b in self.edges:
            last = a
            for layer in range(self.depth[a] + 1, self.depth[b]):
                if layer not in chains[a]:
                    chains[a][layer] = number
                    self.layers[layer].append(number)
                    self._join(last, number)
                    number += 1
                last = chains[a][layer]
            self._join(last, b)
        return chains

    def _join(self, upper: int, lower: int) -> None:
        self.below[upper].append(lower)
        self.above[lower].append(upper)

    def _order(self) -> None:
        """Orders each layer by the mean place of its neighbours, down and up, so that few lines cross."""
        place = {node: float(i) for layer in self.layers for i, node in enumerate(layer)}
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            near = self.above if down else self.below
            for layer in self.layers if down else reversed(self.layers):
                layer.sort(key=lambda n: sum(place[m] for m in near[n]) / len(near[n]) if near[n] else place[n])
                place.update((node, i - len(layer) / 2) for i, node in enumerate(layer))

    def _size(self, node: int) -> float:
        return WIDTH + GAP_X if node < self.count else LANE

    def _across(self) -> dict[int, float]:
        """The middle of each place: near its neighbours', in the layer's order and without overlap."""
        x: dict[int, float] = {}
        for layer in self.layers:
            at = -sum(map(self._size, layer)) / 2
            for node in layer:
                x[node] = at + self._size(node) / 2
                at += self._size(node)
        for sweep in range(SWEEPS):
            for layer in self.layers if sweep % 2 == 0 else reversed(self.layers):
                self._settle(layer, x)
        left = min((at - self._size(node) / 2 for node, at in x.items()), default=0.0)
        return {node: at - left + GAP_X / 2 for node, at in x.items()}

    def _settle(self, layer: list[int], x: dict[int, float]) -> None:
        wanted = []
        for node in layer:
            near = self.above[node] + self.below[node]
            wanted.append(sum(x[m] for m in near) / len(near) if near else x[node])
        at, end = [], float("-inf")
        for node, want in zip(layer, wanted):
            half = self._size(node) / 2
            at.append(max(want, end + half))
            end = at[-1] + half
        shift = sum(w - a for w, a in zip(wanted, at)) / max(1, len(layer))
        x.update((node, a + shift) for node, a in zip(layer, at))

    def _route(self, a: int, b: int) -> list[tuple[float, float]]:
        points = [(self.x[a], self._top(self.depth[a]) + HEIGHT)]
        for layer in range(self.depth[a] + 1, self.depth[b]):
            at, top = self.x[self.chains[a][layer]], self._top(layer)
            points += [(at, top), (at, top + HEIGHT)]
        return [*points, (self.x[b], self._top(self.depth[b]))]
