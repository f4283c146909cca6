"""A file of llama2.c with random weights: its logits, and its tokens, as slow code in llama2.c's own order has them."""

import json
import struct
from itertools import pairwise

import numpy as np
import pytest
from decoder_folders import llama2c_tokens, without_tokenizers

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.interop import read_llama2c, write_huggingface, write_run
from minitransformer.files import FileError

D, F, N, H, G, LONGEST = 24, 20, 2, 4, 2, 16
TEXT = "abba cab 길\nabab bacab caba bbba <unk>"
WORDS = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{i:02X}>" for i in range(256)), *" abc"]
RNG = np.random.default_rng(3)
PIECES = [*dict.fromkeys("".join(RNG.choice([*" abc"], RNG.integers(2, 5))) for _ in range(60))]
TOKENS = [*((word, 0.0) for word in WORDS), *zip(PIECES, map(float, RNG.permutation(len(PIECES))), strict=True)]


def write(folder, tied):
    """Write a model with random weights, and its tokens; return the weights."""
    v, keys = len(TOKENS), D // H * G
    shapes = [(v, D), (N, D), (N, D, D), (N, keys, D), (N, keys, D), (N, D, D), (N, D), (N, F, D), (N, D, F), (N, F, D)]
    shapes += [(D,), (LONGEST * D // H,), *([] if tied else [(v, D)])]
    arrays = [np.random.default_rng(i).normal(size=shape).astype("f4") for i, shape in enumerate(shapes)]
    header = struct.pack("<7i", D, F, N, H, G, v if tied else -v, LONGEST)
    (folder / "stories.bin").write_bytes(header + b"".join(array.tobytes() for array in arrays))
    (folder / "tokenizer.bin").write_bytes(llama2c_tokens(TOKENS))
    return [*arrays[:11], arrays[0 if tied else 12]]


def rms_norm(x, gain):
    return gain * (x / np.sqrt((x**2).mean() + 1e-5))


def logits(weights, ids):
    """Return the logits of each token, with one position, one head and one pair of features at a time."""
    table, norm1, wq, wk, wv, wo, norm2, w1, w2, w3, norm, last = weights
    d, memory, found = D // H, [([], []) for _ in range(N)], []
    for place, token in enumerate(ids):
        x = table[token]
        for layer, (keys, values) in enumerate(memory):
            y = rms_norm(x, norm1[layer])
            q, k = wq[layer] @ y, wk[layer] @ y
            for vector in (q, k):
                for i in range(0, len(vector), 2):
                    angle = place / 10000 ** (i % d / d)
                    a, b = vector[i : i + 2]
                    vector[i : i + 2] = a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)
            keys.append(k)
            values.append(wv[layer] @ y)
            heads = []
            for h in range(H):
                own = slice(h // (H // G) * d, h // (H // G) * d + d)
                scores = np.exp([q[h * d : h * d + d] @ key[own] / np.sqrt(d) for key in keys])
                heads.append(sum(p * value[own] for p, value in zip(scores / scores.sum(), values, strict=True)))
            x = x + wo[layer] @ np.concatenate(heads)
            y = rms_norm(x, norm2[layer])
            gate = w1[layer] @ y
            x = x + w2[layer] @ (gate / (1 + np.exp(-gate)) * (w3[layer] @ y))
        found.append(last @ rms_norm(x, norm))
    return np.array(found)


def split(text):
    """Return the tokens of a text: the neighbours that make up the token with the highest score are merged."""
    scores, found = dict(TOKENS), []
    for letter in " " * bool(text) + text:
        found += [letter] if letter in scores else [f"<0x{byte:02X}>" for byte in letter.encode()]
    while pairs := [i for i in range(len(found) - 1) if found[i] + found[i + 1] in scores]:
        i = max(pairs, key=lambda i: scores[found[i] + found[i + 1]])
        found[i : i + 2] = [found[i] + found[i + 1]]
    return found


THEIRS = [1, *RNG.integers(3, len(TOKENS), LONGEST - 1).tolist()]


@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_a_slow_forward_pass(tmp_path, monkeypatch, capsys, tied):
    without_tokenizers(monkeypatch)
    weights = write(tmp_path, tied)
    (tmp_path / "other").mkdir()
    (tmp_path / "tokenizer.bin").rename(tmp_path / "other" / "tokens.bin")
    command = ["import", "llama2c", str(tmp_path / "stories.bin"), "--out", str(tmp_path / "run")]
    assert main(command) == 2
    assert main([*command, "--tokenizer", str(tmp_path / "other" / "tokens.bin")]) == 0
    assert f"{LONGEST} tokens are read at a time" in capsys.readouterr().out
    run = mt.load(tmp_path / "run")
    known = [run.target.ours[i] for i in range(len(TOKENS))]
    found = run.model.decode(np.array([[1, *(run.target.ours[i] for i in THEIRS[1:])]])).numpy()[0]
    wanted = logits([array.astype("f8") for array in weights], THEIRS)
    np.testing.assert_allclose(found[:, known], wanted, atol=1e-5 * np.abs(wanted).max(), rtol=0)


@pytest.mark.parametrize("tied", [True, False])
def test_transformers_opens_what_was_opened_here(tmp_path, tied):
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    weights = write(tmp_path, tied)
    write_run(read_llama2c(tmp_path / "stories.bin"), tmp_path / "run")
    write_huggingface(mt.load(tmp_path / "run"), tmp_path / "there")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "there")
    found = model(torch.tensor([THEIRS])).logits.detach().numpy()[0]
    wanted = logits([array.astype("f8") for array in weights], THEIRS)
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max(), rtol=0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    text = TEXT.removesuffix("<unk>")  # which transformers takes for the token
    assert tokenizer.convert_ids_to_tokens(tokenizer(text)["input_ids"]) == ["\n<s>\n", *split(text)]


def test_merges_are_in_the_order_of_their_scores(tmp_path, monkeypatch):
    """The first pair of the list that stands in a text is merged, until there is none."""
    without_tokenizers(monkeypatch)
    write(tmp_path, True)
    tokenizer = json.loads(read_llama2c(tmp_path / "stories.bin").source.model)
    assert tokenizer["model"]["vocab"] == {token: i for i, (token, _) in enumerate(TOKENS)}
    assert tokenizer["normalizer"] == {"type": "Prepend", "prepend": " "}
    ranks = {tuple(pair): i for i, pair in enumerate(tokenizer["model"]["merges"])}
    for n in range(1, 60):
        text = "".join(np.random.default_rng(n).choice([*"  aabbcc"], n))
        found = [*(" " + text)]
        while pairs := [(ranks[pair], i) for i, pair in enumerate(pairwise(found)) if pair in ranks]:
            _, i = min(pairs)
            found[i : i + 2] = ["".join(found[i : i + 2])]
        assert found == split(text)


def test_a_text_is_split_by_the_scores_of_the_tokens(tmp_path):
    pytest.importorskip("tokenizers", reason="tokenizers is not installed")
    write(tmp_path, True)
    write_run(read_llama2c(tmp_path / "stories.bin"), tmp_path / "run")
    tokens = mt.load(tmp_path / "run").target
    rng = np.random.default_rng(4)
    texts = [TEXT, "", *("".join(rng.choice([*"  aabbcc<é\n"], n)) for n in range(1, 200))]
    for text in texts:
        ids = tokens.encode(text)
        assert [TOKENS[tokens._theirs[i]][0] for i in ids] == split(text)
        assert tokens.decode(ids) == "".join(tokens.stream([], ids)) == text
    assert len({len(split(text)) / (len(text) or 1) for text in texts}) > 50


# ---------------------------------------------------------------------------------------------------------------------
# What is refused


@pytest.mark.parametrize("change", [
    {"H": 8}, {"G": 3}, {"G": 8}, {"N": 0}, {"V": 0}, {"V": len(TOKENS)}, {"T": 0}, {"D": -24}, {"F": 2**31 - 1},
], ids=str)  # fmt: skip
def test_sizes_that_do_not_fit(tmp_path, change):
    write(tmp_path, tied=False)
    path = tmp_path / "stories.bin"
    sizes = {"D": D, "F": F, "N": N, "H": H, "G": G, "V": -len(TOKENS), "T": LONGEST} | change
    path.write_bytes(struct.pack("<7i", *sizes.values()) + path.read_bytes()[28:])
    with pytest.raises(FileError, match=r"stories\.bin"):
        read_llama2c(path)


NAN, LAST = struct.pack("<f", np.nan), TOKENS[-1]
WRONG_FILES = {
    "none": ("stories.bin", lambda data: b"none", "--version 0"),
    "empty": ("stories.bin", lambda data: b"", "--version 0"),
    "newer": ("stories.bin", lambda data: b"24ka" + data[4:], "--version 0"),
    "a number too few": ("stories.bin", lambda data: data[:-4], "bytes"),
    "not finite": ("stories.bin", lambda data: data[:-4] + NAN, "lm_head"),
    "a token too few": ("tokenizer.bin", lambda data: llama2c_tokens(TOKENS[:-1]), ""),
    "a token too many": ("tokenizer.bin", lambda data: llama2c_tokens([*TOKENS, LAST]), ""),
    "other bytes": ("tokenizer.bin", lambda data: data.replace(b"<unk>", b"\xff" * 5), ""),
    "our end": ("tokenizer.bin", lambda data: llama2c_tokens([*TOKENS[:-1], ("<end>", 0)]), "<end>"),
    "our padding": ("tokenizer.bin", lambda data: llama2c_tokens([*TOKENS[:-1], ("<pad>", 0)]), "<pad>"),
}


@pytest.mark.parametrize("name", WRONG_FILES)
def test_files_that_are_wrong(tmp_path, monkeypatch, name):
    without_tokenizers(monkeypatch)
    write(tmp_path, tied=False)
    file, change, word = WRONG_FILES[name]
    (tmp_path / file).write_bytes(change((tmp_path / file).read_bytes()))
    with pytest.raises(FileError, match=word or "tokenizer.bin"):
        read_llama2c(tmp_path / "stories.bin")


@pytest.mark.parametrize("name", ["stories.bin", "tokenizer.bin"])
def test_files_that_are_missing(tmp_path, name):
    write(tmp_path, tied=True)
    (tmp_path / name).unlink()
    with pytest.raises(FileError, match=name):
        read_llama2c(tmp_path / "stories.bin")
