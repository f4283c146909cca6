"""Chapter 2."""

import re


def breadth_first(parts, loss):
    order = [loss]
    for node in order:
        order += [part for part in dict.fromkeys(parts[node]) if part not in order]
    return order


def depth_first(parts, loss):
    order, stack = [], [loss]
    while stack:
        node = stack.pop()
        if node not in order:
            order.append(node)
            stack += parts[node]
    return order


def once_for_each_path(parts, loss):
    order = [loss]
    for node in order:
        order += parts[node]
    return order


def counted(parts, loss, *, reached_only=True, once=False):
    """Count uses and count down; from all nodes, or each user once, by mistake."""
    inside = set(breadth_first(parts, loss)) if len(parts) < 20 else set(parts)
    waiting = dict.fromkeys(parts, 0)
    for node in inside if reached_only else parts:
        for part in parts[node]:
            waiting[part] += 1
    ready, found = [loss], []
    while ready:
        node = ready.pop()
        found.append(node)
        for part in set(parts[node]) if once else parts[node]:
            waiting[part] -= 1
            if waiting[part] == 0:
                ready.append(part)
    return found


def recursive(parts, loss):
    found = {}

    def visit(node):
        if node not in found:
            for part in parts[node]:
                visit(part)
            found[node] = True

    visit(loss)
    return list(reversed(found))


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


def receiving(receive):
    """Return what exercise 2 makes of a function that receives shares."""

    def backward(x, d_L):
        d = {"L": d_L}
        d["u"] = receive(d, "u", d["L"])
        d["x"] = receive(d, "x", d["L"])
        d["x"] = receive(d, "x", d["u"] * x)
        d["x"] = receive(d, "x", d["u"] * x)
        return d["x"]

    return backward


def in_place(d, name, share):
    if name not in d:
        return share
    d[name] += share
    return d[name]


def slopes_alone(steps, d_loss):
    d = {name: 0.0 for output, inputs, _ in steps for name in (output, *inputs)} | {steps[-1][0]: d_loss}
    for _, inputs, slopes in reversed(steps):
        for name, slope in zip(inputs, slopes, strict=True):
            d[name] += slope
    return d


def step_left_early(steps, d_loss, stopped):
    d = {name: 0.0 for output, inputs, _ in steps for name in (output, *inputs)} | {steps[-1][0]: d_loss}
    for output, inputs, slopes in reversed(steps):
        for name, slope in zip(inputs, slopes, strict=True):
            if name in stopped:
                break
            d[name] += d[output] * slope
    return d


def gate_of_outputs(x, d_y, f, f_backward, g, g_backward):
    u, v = f(x), g(x)
    return f_backward(u, d_y * v) + g_backward(v, d_y * u)


def walk(*, turn=reversed, add=True, stop=lambda output, name, stopped: False):
    def backward(steps, d_loss, stopped=frozenset()):
        d = {name: 0.0 for output, inputs, _ in steps for name in (output, *inputs)}
        d[steps[-1][0]] = d_loss
        for output, inputs, slopes in turn(steps):
            for name, slope in zip(inputs, slopes, strict=True):
                if not stop(output, name, stopped):
                    d[name] = d[output] * slope + (d[name] if add else 0.0)
        return d

    return backward


def turned_in_place(steps, d_loss):
    d = walk()(steps, d_loss)
    steps.reverse()
    return d


def zeroed_at_the_end(steps, d_loss, stopped):
    return walk()(steps, d_loss) | dict.fromkeys(stopped, 0.0)


def no_dead_end(steps, d_loss):
    return {name: value for name, value in walk()(steps, d_loss).items() if name != "dead"}


def gate(mix):
    def backward(x, d_y, f, f_backward, g, g_backward):
        u, v = f(x), g(x)
        return mix(lambda d: f_backward(x, d), lambda d: g_backward(x, d), d_y, u, v)

    return backward


def doubled_and_halved(x, d_y, f, f_backward, g, g_backward):
    d_y *= 2
    return (f_backward(x, d_y * g(x)) + g_backward(x, d_y * f(x))) / 2


def whole_step(steps, d_loss, stopped):
    return walk(turn=lambda steps: [step for step in reversed(steps) if not stopped & set(step[1])])(steps, d_loss)


def unit_loss(steps, d_loss, stopped):
    return walk(stop=lambda output, name, stopped: name in stopped)(steps, 1.0, stopped)


wrong = [
    ("order-of-a-graph", "u comes before v, which was made of it", breadth_first),
    ("order-of-a-graph", "comes before", depth_first),
    ("order-of-a-graph", "u is in the list 2 times", once_for_each_path),
    ("order-of-a-graph", "a is missing in the list", lambda parts, loss: counted(parts, loss, reached_only=False)),
    ("order-of-a-graph", "x is missing in the list", lambda parts, loss: counted(parts, loss, once=True)),
    ("order-of-a-graph", "dead is in the list", lambda parts, loss: list(parts)),
    ("order-of-a-graph", re.compile("L has its turn|before"), lambda parts, loss: counted(parts, loss)[::-1]),
    ("order-of-a-graph", "too deep for recursion", recursive),
    ("order-of-a-graph", "dead is in the list", lambda parts, loss: [*counted(parts, loss), "dead"]),
    ("order-of-a-graph", "should return a list", lambda parts, loss: set(parts)),
    ("add-up-the-shares", "only the last share is left", receiving(lambda d, name, share: share)),
    ("add-up-the-shares", "only the first share", receiving(lambda d, name, share: d.get(name, share))),
    ("add-up-the-shares", "is not right yet", receiving(lambda d, name, share: d.get(name, 1.0) + share)),
    ("add-up-the-shares", "changed in place", receiving(in_place)),
    ("add-up-the-shares", re.compile("inputs x = 1.5, d_L = "), lambda x, d_L: d_L * x),
    ("add-up-the-shares", "one share of x * x is missing", lambda x, d_L: d_L * x + d_L),
    (
        "walk-back",
        "it begins with the first step",
        walk(turn=list),
    ),
    ("walk-back", "each share replaces the one before", walk(add=False)),
    ("walk-back", "steps was changed", turned_in_place),
    ("walk-back", "a share is the slope alone", slopes_alone),
    ("walk-back", re.compile(r"inputs steps = \[\('u', \('x', 'y'\), .* d_loss = 1.3"), walk(turn=list)),
    ("walk-back", "d has no 'dead'", no_dead_end),
    ("walk-back", "is not right yet", lambda steps, d_loss: walk()(steps[-4:], d_loss) | walk()(steps, 1.3)),
    ("walk-back", "d_loss is not used", lambda steps, d_loss: walk()(steps, 1.0)),
    ("one-input-two-functions", "comes back through g is missing", gate(lambda f, g, d, u, v: f(d * v))),
    ("one-input-two-functions", "comes back through f is missing", gate(lambda f, g, d, u, v: g(d * u))),
    ("one-input-two-functions", "u and v are swapped", gate(lambda f, g, d, u, v: f(d * u) + g(d * v))),
    ("one-input-two-functions", "the product is missing in the backward pass", gate(lambda f, g, d, u, v: f(d) + g(d))),
    ("one-input-two-functions", "two shares are multiplied", gate(lambda f, g, d, u, v: f(d * v) * g(d * u))),
    ("one-input-two-functions", "v and u multiply the results", gate(lambda f, g, d, u, v: v * f(d) + u * g(d))),
    ("one-input-two-functions", "take x, the input of f and g", gate_of_outputs),
    ("one-input-two-functions", "d_y was changed in place", doubled_and_halved),
    ("one-input-two-functions", "is not right yet", gate(lambda f, g, d, u, v: f(d * v) - g(d * u))),
    ("stop-the-gradient", "without any stop", walk()),
    ("stop-the-gradient", "d_loss is not used", unit_loss),
    ("stop-the-gradient", "its other inputs should get their share", whole_step),
    ("stop-the-gradient", "after a stopped name the other inputs of the step get nothing", step_left_early),
    ("stop-the-gradient", "but it receives", walk(stop=lambda output, name, stopped: output in stopped)),
    ("stop-the-gradient", "stopped = {'u'}", zeroed_at_the_end),
    (
        "stop-the-gradient",
        "when it has already passed on its gradient",
        zeroed_at_the_end,
    ),
    ("stop-the-gradient", "is not right yet", walk(stop=lambda output, name, stopped: True)),
]

right = [
    ("order-of-a-graph", counted),
    ("add-up-the-shares", lambda x, d_L: d_L * (2 * x + 1)),
    ("add-up-the-shares", receiving(lambda d, name, share: d.get(name, 0) + share)),
    ("order-of-a-graph", lambda parts, loss: by_depth(parts, loss)),
    ("stop-the-gradient", walk(stop=lambda output, name, stopped: name in stopped)),
]
