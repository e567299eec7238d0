# bench/limits.py: the least time that a case can take on this machine
"""Of what a case computes, as Hologram's plan of it says: its arithmetic over the peak of its operands' types, or its compulsory traffic
(what kernels touch of inputs, weights as they are kept, and results, each once) over what the first level of memory that holds it
reads, copies and writes in a second, whichever is longer. hologram.limits measures the machine."""


def work_of(graphs) -> dict:
    """Operations by dtype, and compulsory bytes, those written among them, of explain()'s graphs, whose sizes are numbers."""
    flop, bytes, written = {}, 0, 0
    for graph in graphs:
        plan, slots, read, wrote = graph.page(), graph.plan["slots"], {}, {}
        for number in plan.steps():
            step = graph.plan["steps"][number]
            dtype = plan.operand(number)
            flop[dtype] = flop.get(dtype, 0) + (plan.cost(number)[0] or 0)
            moved = dict(zip(step["slots"], step.get("moved", ())))  # a kernel's; an operator of PyTorch's moves all
            for what, all, without in (("reads", read, ("arena", "output")), ("writes", wrote, ("arena",))):
                for n in step.get(what, ()):
                    if n >= 0 and slots[n]["kind"] not in without:
                        all[n] = max(all.get(n, 0), int(moved.get(n, slots[n]["bytes"])))
        written += sum(wrote.values())
        bytes += sum(read.values()) + sum(wrote.values())
    return {"flop": flop, "bytes": bytes, "written": written}


def least_seconds(work: dict, limits) -> tuple[float, str]:
    """What the work takes at least, and what binds."""
    compute = sum(n / limits.peak(dtype) for dtype, n in work["flop"].items())
    move, level = limits.least(0, work["bytes"], written=work["written"])
    return (compute, "arithmetic") if compute > move else (move, level)
