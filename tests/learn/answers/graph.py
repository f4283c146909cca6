"""Graphs."""

from learn.answers import in_other_forms


def by_depth(parts, loss):
    """Sort by the longest way from the loss."""
    depth = {loss: 0}
    todo = [loss]
    for node in todo:
        for part in parts[node]:
            if depth.get(part, -1) < depth[node] + 1:
                depth[part] = depth[node] + 1
                todo.append(part)
    return sorted(depth, key=depth.get)


right = [
    ("order-of-a-graph", lambda parts, loss: by_depth(parts, loss)),
    ("add-up-the-shares", lambda x, d_L: d_L * (2 * x + 1)),
    *in_other_forms("add-up-the-shares", "d[name] + share if name in d else", "d.get(name, 0) +"),
    *in_other_forms("stop-the-gradient", "d[name] += share", "d[name] = d[output] * slope + d[name]"),
]
