"""A file of llama2.c with random weights: its logits, and its tokens, as slow code in llama2.c's own order has them."""

import struct

import numpy as np
import pytest

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.exchange import read_llama2c, write_huggingface, write_run

pytest.importorskip("tokenizers", reason="tokenizers is not installed")
D, F, N, H, G, LONGEST = 24, 20, 2, 4, 2, 16
TEXT = "abba cab 길\nabab bacab caba bbba <unk>"
WORDS = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{i:02X}>" for i in range(256)), *" abc"]
RNG = np.random.default_rng(3)
PIECES = [*dict.fromkeys("".join(RNG.choice([*" abc"], RNG.integers(2, 5))) for _ in range(60))]
TOKENS = [*((word, 0.0) for word in WORDS), *zip(PIECES, map(float, RNG.permutation(len(PIECES))), strict=True)]
BYTES = struct.pack("<i", 9) + b"".join(struct.pack("<fi", s, len(t.encode())) + t.encode() for t, s in TOKENS)


def write(folder, tied):
    """Write a model with random weights, and its tokens; return the weights."""
    v, keys = len(TOKENS), D // H * G
    shapes = [(v, D), (N, D), (N, D, D), (N, keys, D), (N, keys, D), (N, D, D), (N, D), (N, F, D), (N, D, F), (N, F, D)]
    shapes += [(D,), (LONGEST * D // H,), *([] if tied else [(v, D)])]
    arrays = [np.random.default_rng(i).normal(size=shape).astype("f4") for i, shape in enumerate(shapes)]
    header = struct.pack("<7i", D, F, N, H, G, v if tied else -v, LONGEST)
    (folder / "stories.bin").write_bytes(header + b"".join(array.tobytes() for array in arrays))
    (folder / "tokenizer.bin").write_bytes(BYTES)
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


@pytest.mark.parametrize("tied", [True, False])
def test_logits_are_those_of_a_slow_forward_pass_here_and_in_transformers(tmp_path, capsys, tied):
    weights = write(tmp_path, tied)
    (tmp_path / "other").mkdir()
    (tmp_path / "tokenizer.bin").rename(tmp_path / "other" / "tokens.bin")
    command = ["import", "llama2c", str(tmp_path / "stories.bin"), "--out", str(tmp_path / "run")]
    assert main(command) == 2
    assert main([*command, "--tokenizer", str(tmp_path / "other" / "tokens.bin")]) == 0
    assert f"{LONGEST} tokens are read at a time" in capsys.readouterr().out
    run = mt.load(tmp_path / "run")
    ids = [1, *run.target.encode(TEXT)][:LONGEST]
    theirs = [1, *(run.target._theirs[i] for i in ids[1:])]
    wanted = logits([array.astype("f8") for array in weights], theirs)
    known = [run.target.ours[i] for i in range(len(TOKENS))]
    found = run.model.decode(np.array([ids])).numpy()[0]
    np.testing.assert_allclose(found[:, known], wanted, atol=1e-5 * np.abs(wanted).max(), rtol=0)
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    write_huggingface(run, tmp_path / "there")
    model = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "there")
    found = model(torch.tensor([theirs])).logits.detach().numpy()[0]
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max(), rtol=0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    assert tokenizer(TEXT)["input_ids"][:LONGEST] == theirs


def test_a_text_is_split_by_the_scores_of_the_tokens(tmp_path):
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
