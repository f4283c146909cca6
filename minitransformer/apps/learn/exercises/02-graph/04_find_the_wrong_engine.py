"""One of these engines is wrong: show it.

parts[n] lists the nodes from which node n is computed, with the local
derivatives. Each engine returns the derivative of the loss with respect to
every node. On EASY all four agree. Give the letter of the wrong one, and a
graph on which it differs.

The loss of your graph is the node "L". Every node comes after its parts. Ten
nodes with twenty parts in all are enough.
"""

EASY = {"x": [], "u": [("x", 3.0)], "L": [("u", 0.5)]}  # u = 3 x, L = u / 2


def a(parts, loss):
    """Go through the nodes from the last to the first."""
    d = dict.fromkeys(parts, 0.0) | {loss: 1.0}
    for node in reversed(parts):  # a node comes after its parts
        for part, slope in parts[node]:
            d[part] += d[node] * slope
    return d


def b(parts, loss):
    """Follow every path."""
    d = dict.fromkeys(parts, 0.0)
    todo = [(loss, 1.0)]
    while todo:
        node, share = todo.pop()
        d[node] += share
        todo += [(part, share * slope) for part, slope in parts[node]]
    return d


def c(parts, loss):
    """Begin with the loss, go on with its parts, and so on."""
    d = dict.fromkeys(parts, 0.0) | {loss: 1.0}
    order = [loss]
    for node in order:  # grows on the way
        for part, slope in parts[node]:
            d[part] += d[node] * slope
            if part not in order:
                order.append(part)
    return d


def d(parts, loss):
    """Ask each node's users."""

    def of(part):
        uses = [(n, s) for n in parts for p, s in parts[n] if p == part]
        return sum(of(n) * s for n, s in uses) if part != loss else 1.0

    return {node: of(node) for node in parts}


def counterexample():
    """Return the letter of the wrong engine and a graph that shows it."""
    # [solution
    # u sends to x when it is first met, before the share of v has arrived
    graph = {
        "x": [],
        "u": [("x", 2.0)],
        "v": [("u", 3.0)],
        "L": [("u", 1.0), ("v", 1.0)],
    }
    return "c", graph
    # solution] in the exercise:
    #: # TODO: "a", "b", "c" or "d", and a dictionary such as EASY
    #: return ..., ...
