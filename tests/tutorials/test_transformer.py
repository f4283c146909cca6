"""The Transformer in one file: it agrees with the engine, and its own check catches a mistake in any backward line."""

import ast
import copy
import re
from importlib.util import module_from_spec, spec_from_file_location
from itertools import count, pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.tasks.spelling import spell

FILE = Path(__file__).parents[2] / "tutorials" / "transformer.py"
SOURCE = FILE.read_text(encoding="utf-8")
ARRAY = re.compile(r"d_\w+")


def load():
    spec = spec_from_file_location("whole_transformer", FILE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


whole = load()


# ---------------------------------------------------------------------------------------------------------------------
# The listing


def test_it_is_a_listing_of_300_lines_that_needs_numpy_alone():
    lines = SOURCE.splitlines()
    assert len(lines) <= 300
    assert max(map(len, lines)) <= 100
    assert "import numpy as np" in lines
    assert SOURCE.count("import ") == 1


def test_each_backward_pass_is_directly_below_its_forward_pass():
    names = [node.name for node in ast.parse(SOURCE).body if isinstance(node, ast.FunctionDef)]
    backward = [name for name in names if name.endswith("_backward")]
    assert len(backward) == 12
    for above, name in pairwise(names):
        assert not name.endswith("_backward") or name == f"{above}_backward"


@pytest.mark.parametrize("numbers", [range(1, 2101), range(2101, 1_000_000, 3137), [999_999, 777_777, 101_101]])
def test_numbers_are_written_as_num2words_writes_them(numbers):
    for n in numbers:
        assert whole.english(n).split() == re.sub("[-,]", " ", spell(n, "en")).split()
        # num2words writes 101,000 as einhunderteinstausend, which is no German
        assert whole.german(n).replace(" ", "") == spell(n, "de").replace("einstausend", "eintausend")


def test_a_perfect_model_has_the_loss_that_is_said():
    ids = np.array([[5, 6, 7]])
    best = np.full((1, 3, len(whole.TOKENS)), whole.SMOOTHING / len(whole.TOKENS))
    best[0, range(3), ids[0]] += 1 - whole.SMOOTHING
    said = re.search(r"a perfect model then has a loss of (\d\.\d\d)", SOURCE)[1]
    assert f"{whole.cross_entropy(np.log(best), ids)[0]:.2f}" == said


def test_the_site_leads_from_each_pair_to_where_it_is_derived():
    text = (FILE.parents[1] / "docs" / "one-file.md").read_text(encoding="utf-8")
    for function in backward_functions():
        (row,) = re.findall(rf"^\| .*transformer\.py#{function.name}\).*$", text, re.M)
        assert f"transformer.py#{function.name.removesuffix('_backward')})" in row
        assert re.search(r"\(derivations/|\(\.\./tutorials/\d", row)
        assert "(../minitransformer/" in row


# ---------------------------------------------------------------------------------------------------------------------
# The engine


def of_the_engine(p):
    """Return the engine's model with the parameters of the file."""
    table, encoder, _ = p
    v, d_model = table.shape
    options = mt.nn.ModelOptions(
        d_model=d_model, n_heads=whole.H, n_layers=len(encoder), d_ff=encoder[0][2][1].size, dropout=0.0,
        share_embeddings="all", dtype="float64",
    )  # fmt: skip
    model = mt.nn.Transformer(v, v, options)
    model.load_state_dict(named(p))
    return model


def named(p):
    """Return arrays of the file, parameters or gradients, by the engine's names and in its packing."""
    table, encoder, decoder = p
    found = {"source_embedding.table": table}
    kinds = {"encoder": ("self_attention", "residual1", "feed_forward", "residual2")}
    kinds["decoder"] = ("self_attention", "residual1", "cross_attention", "residual2", "feed_forward", "residual3")
    for stack, layers in ("encoder", encoder), ("decoder", decoder):
        for i, layer in enumerate(layers):
            for kind, arrays in zip(kinds[stack], layer, strict=True):
                if kind.endswith("attention"):
                    values = {"w_in": np.concatenate(arrays[:3], axis=1), "w_out": arrays[3]}
                elif kind == "feed_forward":
                    values = dict(zip(("w1", "b1", "w2", "b2"), arrays, strict=True))
                else:
                    values = dict(zip(("layer_norm.gain", "layer_norm.bias"), arrays, strict=True))
                found |= {f"{stack}.layers.{i}.{kind}.{name}": value for name, value in values.items()}
    return found


def parameters(rng, v, d, f, n):
    """Return random parameters: no gain is 1, and no bias 0."""
    p = whole.initial(rng, v, d, f, n, np.float64)
    for x in whole.leaves(p):
        x += rng.normal(0, 0.1, x.shape)
    return p


def ids(rng, v):
    """Return source and target ids with padding, and a source of nothing but padding."""
    source, target = rng.integers(3, v, (5, 7)), rng.integers(3, v, (5, 6))
    source[0, 4:] = source[1] = target[2, 3:] = whole.PAD
    return source, target


def engine_loss(model, source, target):
    logits = model(source, target[:, :-1])
    return mt.ops.cross_entropy(logits, target[:, 1:], label_smoothing=whole.SMOOTHING, ignore_index=whole.PAD)


@pytest.mark.parametrize("seed", range(3))
def test_loss_and_gradients_are_those_of_the_engine(seed):
    rng = np.random.default_rng(seed)
    p = parameters(rng, v=11, d=4 * (seed + 2), f=10, n=seed + 1)
    source, target = ids(rng, 11)
    value, saved = whole.loss(source, target, *p)
    ours = named(whole.loss_backward(*saved))
    model = of_the_engine(p)
    expected = engine_loss(model, source, target)
    expected.backward()
    assert abs(value - expected.item()) <= 1e-12
    theirs = {name: parameter.grad for name, parameter in model.named_parameters()}
    assert ours.keys() == theirs.keys()
    for name, gradient in theirs.items():
        np.testing.assert_allclose(ours[name], gradient, rtol=0, atol=1e-12, err_msg=name)


def test_fifty_steps_of_training_stay_with_the_engine():
    rng = np.random.default_rng(3)
    p = whole.initial(rng, len(whole.TOKENS), 16, 20, 2, np.float64)
    model = of_the_engine(p)
    optimiser = mt.optim.Adam(model.parameters(), (whole.BETA1, whole.BETA2), whole.EPS)
    means, squares = ([np.zeros_like(x) for x in whole.leaves(p)] for _ in range(2))
    first = None
    for step in range(1, 51):
        source, target = whole.batch(whole.draw(rng, 0, 8))
        value, saved = whole.loss(source, target, *p)
        whole.adam(p, whole.loss_backward(*saved), means, squares, step)
        expected = engine_loss(model, source, target)
        optimiser.zero_grad()
        expected.backward()
        optimiser.step(mt.optim.linear_decay(step, whole.PEAK, whole.WARMUP, whole.STEPS))
        assert abs(value - expected.item()) <= 1e-9, step
        first = value if first is None else first
    assert value < first - 0.5
    for name, array in named(p).items():
        np.testing.assert_allclose(array, model.state_dict()[name], rtol=0, atol=1e-8, err_msg=name)


def test_single_precision_stays_single_and_masked_rows_stay_finite():
    rng = np.random.default_rng(4)
    p = whole.initial(rng, 11, 8, 6, 2, np.float32)
    with np.errstate(all="raise"):
        logits, saved = whole.model(*ids(rng, 11), *p)
        gradients = whole.leaves(whole.model_backward(np.ones_like(logits), *saved))
    assert {x.dtype for x in (logits, *gradients)} == {np.dtype("float32")}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softmax_is_the_engine_s_for_large_scores_and_hidden_rows(dtype):
    rng = np.random.default_rng(5)
    x, d_y = rng.normal(0, 1e4, (6, 5)).astype(dtype), rng.normal(size=(6, 5)).astype(dtype)
    mask = rng.random((6, 5)) < 0.6
    mask[2], x[3] = False, [1e4, 1e4, -1e4, 9999, -np.inf]
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        y, saved = whole.softmax(x, mask)
        d_x = whole.softmax_backward(d_y, *saved)
    expected, kept = mt.ops.softmax.forward(x, mask=mask)
    np.testing.assert_allclose(y, expected, rtol=1e-6)
    np.testing.assert_allclose(d_x, mt.ops.softmax.backward(kept, d_y)[0], rtol=1e-5, atol=1e-6)
    assert (y[~mask] == 0).all()
    assert (d_x[~mask] == 0).all()


# ---------------------------------------------------------------------------------------------------------------------
# The check


class Mistakes(ast.NodeVisitor):
    """Every mistake that can be made mechanically in one function, as (line, what, tree of the function)."""

    def __init__(self, function):
        self.function, self.found = function, []
        self.line = 0
        self.known = [argument.arg for argument in function.args.args]
        for i, statement in enumerate(function.body):
            self.statement(function.body, i, statement)

    def statement(self, body, i, statement):
        if isinstance(statement, ast.For):
            self.line = statement.lineno
            self.mutate(statement, "iter", statement.iter)
            self.visit(statement.iter)
            self.known += [name.id for name in ast.walk(statement.target) if isinstance(name, ast.Name)]
            for j, inner in enumerate(list(statement.body)):
                self.statement(statement.body, j, inner)
            return
        self.line = statement.lineno
        self.visit(statement)
        if isinstance(statement, ast.Return):
            self.record(body, i, ast.parse(f"return doubled({ast.unparse(statement.value)})").body, "doubled")
            return
        self.record(body, i, [], "left out")
        targets = [name.id for t in getattr(statement, "targets", ()) for name in ast.walk(t) if is_target(name)]
        for name in targets if not is_empty(statement) else ():
            self.record(body, i, [statement, *ast.parse(f"{name} = doubled({name})").body], f"{name} doubled")
            self.known.append(name)

    def record(self, owner, place, new, what):
        """Keep a copy of the function with another part, in a list or a field of a node."""
        if isinstance(owner, list):
            old = owner[:]
            owner[place : place + 1] = new
            self.found.append((self.line, what, copy.deepcopy(self.function)))
            owner[:] = old
        else:
            old = getattr(owner, place)
            setattr(owner, place, new)
            self.found.append((self.line, what, copy.deepcopy(self.function)))
            setattr(owner, place, old)

    def visit(self, node):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr):
                self.mutate(node, field, value)
                self.visit(value)
            for i, part in enumerate(value if isinstance(value, list) else ()):
                if isinstance(part, ast.expr):
                    self.mutate(value, i, part)
                    self.visit(part)

    def mutate(self, owner, place, node):
        if getattr(owner, "attr", "") == "shape":
            return  # other arrays have the same sizes
        for what, new in self.wrong(node):
            self.record(owner, place, [new] if isinstance(owner, list) else new, f"{ast.unparse(node)} -> {what}")

    def wrong(self, node):
        """Yield what could stand wrongly in place of an expression."""
        swaps = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult}
        if isinstance(node, ast.BinOp):
            new = [node.left, node.right]
            if type(node.op) in swaps:
                new.append(ast.BinOp(node.left, swaps[type(node.op)](), node.right))
            if isinstance(node.op, ast.MatMult):
                new.append(ast.BinOp(node.right, node.op, node.left))
        elif isinstance(node, ast.Attribute) and node.attr in ("T", "mT"):
            new = [node.value]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith((".sum", ".mean")):
            new = [node.func.value if node.keywords else ast.Subscript(node.func.value, node.args[0], ast.Load())]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("reversed", "rows", "np.exp"):
            new = [node.args[0]]
        elif isinstance(node, ast.Compare):
            new = [ast.Compare(node.left, [ast.Lt()], node.comparators)]
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            new = [ast.Name(name, ast.Load()) for name in dict.fromkeys(self.known) if alike(name, node.id)]
        else:
            new = []
        return [(ast.unparse(one), one) for one in new]


def is_target(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and ARRAY.fullmatch(node.id)


def is_empty(statement):
    """Tell whether a statement only prepares lists and sums, of which twice as much is as much."""
    return re.search(r"= \(\[\], \[\], 0\)|= np\.zeros", ast.unparse(statement))


def alike(name, other):
    """Tell whether two names are easily taken for each other."""
    kinds = (r"d_\w+", r"saved\w*", r"[qkv]")
    return name != other and any(re.fullmatch(kind, name) and re.fullmatch(kind, other) for kind in kinds)


def doubled(tree):
    return 2 * tree if isinstance(tree, np.ndarray) else [doubled(part) for part in tree]


def backward_functions():
    return [node for node in ast.parse(SOURCE).body if getattr(node, "name", "").endswith("_backward")]


@pytest.fixture(scope="module")
def losses():
    """The losses that the check computes at every fifth entry: no mistake in a backward pass changes them."""
    found, real = [], whole.loss
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(whole, "np", SimpleNamespace(**vars(np) | {"ndindex": lambda shape: [*np.ndindex(shape)][::5]}))
        with pytest.MonkeyPatch.context() as recording:
            recording.setattr(whole, "loss", lambda *inputs: found.append(real(*inputs)) or found[-1])
            whole.check()
        yield [value for value, _ in found]


def fails(function, losses):
    """Tell whether the file's own check fails with another function in it."""
    real, calls = whole.loss, count()

    def replay(*inputs):  # the first call is the one that is differentiated
        at = next(calls)
        return (losses[at], None) if at else real(*inputs)

    found = {}
    exec(compile(ast.fix_missing_locations(ast.Module([function], [])), "mistake", "exec"), vars(whole), found)
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr(whole, "doubled", doubled, raising=False)
        patch.setattr(whole, function.name, found[function.name])
        patch.setattr(whole, "loss", replay)
        try:
            whole.check()
        except SystemExit as stop:
            return str(stop).startswith("wrong gradient: ")
        except Exception:
            return True  # of shapes that do not fit, for example
    return False


@pytest.mark.parametrize("function", backward_functions(), ids=lambda function: function.name)
def test_its_check_catches_a_mistake_in_any_backward_line(function, losses, capsys):
    found = Mistakes(copy.deepcopy(function)).found
    lines = {node.lineno for node in ast.walk(function) if isinstance(node, ast.stmt)} - {function.lineno}
    assert lines == {line for line, _, _ in found}, "a line without a mistake"
    missed = [f"line {line}: {what}" for line, what, wrong in found if not fails(wrong, losses)]
    assert not missed, "\n".join(missed)


def test_a_shortened_run_learns_and_says_so(monkeypatch, capsys):
    monkeypatch.setattr(whole, "STEPS", 60)
    monkeypatch.setattr(whole, "WARMUP", 30)
    monkeypatch.setattr(whole, "HELD_OUT", 6)
    whole.train()
    said = capsys.readouterr().out
    losses = [float(value) for value in re.findall(r"^step +\d+  loss (\d\.\d{3})  \w+$", said, re.M)]
    assert len(losses) == 3
    assert losses[-1] < 1.6 < losses[0]
    assert re.search(r"^exact match on 6 held-out numbers: \d+\.\d %$", said, re.M)
