"""Decoders alone of transformers, with random weights: the same logits, gradients and greedy continuations."""

import json
from itertools import islice

import numpy as np
import pytest
from toml_cases import toml_table

import minitransformer as mt
from minitransformer.apps.cli import main
from minitransformer.apps.explorer.session import Session
from minitransformer.apps.interop import ExportError, read_huggingface, write_ctranslate2, write_huggingface, write_run
from minitransformer.data import TokenizerJson
from minitransformer.decoding import SamplingOptions, sample
from minitransformer.files import FileError
from minitransformer.runs import RunFolder

transformers = pytest.importorskip("transformers", reason="transformers is not installed")
torch = pytest.importorskip("torch", reason="PyTorch is not installed")
tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")

pytestmark = pytest.mark.numpy_only("compared with PyTorch on the CPU")
TEXT = "The animal didn't cross the street, 길을 건너지 않았다, because it was too tired."
END, START, CHAT = "<|endoftext|>", "<s>", "{% for one in messages %}길 {{ one.content }}{% endfor %}"
MODELS = toml_table(__file__, "MODELS")


def save(folder, name, dtype=torch.float64, **changes):
    """Write a model with random weights and its tokenizer; return both."""
    kind, options = MODELS[name]["kind"], MODELS[name]["options"]
    begins = kind in ("Llama", "Mistral")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=300, special_tokens=[END, START], initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator([TEXT.replace("길", "")] * 3, trainer)
    if begins:
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"{START} $A", special_tokens=[(START, 1)]
        )
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    if begins:  # as newer versions keep it
        (folder / "chat_template.jinja").write_text(CHAT, encoding="utf-8")
    else:
        (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": CHAT}), encoding="utf-8")
    size = {"vocab_size": 304, "eos_token_id": [0, 5], "bos_token_id": int(begins)}
    config = getattr(transformers, f"{kind}Config")(**{**options, **size, **changes})
    torch.manual_seed(0)
    model = (
        getattr(transformers, f"{kind}ForCausalLM" if kind != "GPT2" else "GPT2LMHeadModel")(config).to(dtype).eval()
    )
    for parameter in model.parameters():
        parameter.data.normal_(0, 0.3)
        if parameter.ndim == 1:
            parameter.data.add_(1)
    model.save_pretrained(folder)
    return model, tokenizer


@pytest.fixture(params=MODELS)
def opened(request, tmp_path):
    """Return a model, its tokenizer, and the run that holds it here."""
    model, tokenizer = save(tmp_path / "theirs", request.param)
    write_run(read_huggingface(tmp_path / "theirs"), tmp_path / "run")
    return model, tokenizer, mt.load(tmp_path / "run"), tmp_path


def test_logits_gradients_and_continuations_are_theirs(opened):
    model, tokenizer, run, tmp_path = opened
    theirs, ids = tokenizer.encode(TEXT).ids, run.target.encode(TEXT)
    begins = run.options.model.start_token
    assert len(ids) == len(theirs) - begins
    assert run.target.decode(ids) == "".join(run.target.stream([2], ids)) == TEXT  # also after an end
    rows = np.array(run.target._theirs)
    known = rows >= 0
    known[1] &= begins  # otherwise a copy of the end, which is never written
    inputs = np.array([[1, *ids] if begins else ids])
    logits = model(torch.tensor([theirs])).logits
    cotangent = np.random.default_rng(1).normal(size=logits.shape)
    logits.backward(torch.tensor(cotangent))
    found = run.model.decode(inputs)
    wanted = logits.detach().numpy()
    error = np.abs(found.numpy()[..., known] - wanted[..., rows[known]]).max()
    exact = model.config.model_type == "gpt2"  # the others round norms and angles to float32 in either precision
    assert error < (1e-10 if exact else 5e-6) * np.abs(wanted).max()

    ours = np.zeros(found.shape)
    ours[..., known] = cotangent[..., rows[known]]
    found.backward(ours)
    for parameter in model.parameters():  # their gradients, read as if they were weights
        parameter.data = parameter.grad
    model.save_pretrained(tmp_path / "theirs")
    expected = read_huggingface(tmp_path / "theirs").state
    for name, parameter in run.model.named_parameters():
        if name != "output_bias":
            kept = known if len(expected[name]) == len(known) else slice(None)
            one, other = parameter.grad[kept], expected[name][kept]
            assert np.abs(one - other).max() < (1e-9 if exact else 5e-5) * np.abs(other).max(), name


def test_all_ends_are_read_and_written_again(tmp_path):
    save(tmp_path / "theirs", "gpt2", eos_token_id=0)
    rules, template = tmp_path / "theirs" / "generation_config.json", tmp_path / "theirs" / "chat_template.jinja"
    for ends in ([0, 5, 7], [0], 0):
        rules.write_text(json.dumps({"eos_token_id": ends, "temperature": 0.6}), encoding="utf-8")
        run, ends = tmp_path / f"run {ends}", ends if ends != [0] else 0
        write_run(read_huggingface(tmp_path / "theirs"), run)
        tokens = mt.load(run).target
        assert [tokens._theirs[i] for i in tokens.ends] == (ends or [0])
        earlier = TokenizerJson.from_json({name: part for name, part in tokens.to_json().items() if name != "kept"})
        for target, wanted in ((tokens, {"eos_token_id": ends, "temperature": 0.6}), (earlier, {"eos_token_id": 0})):
            there = run / f"there {len(wanted)}"
            write_huggingface(mt.load(run)._replace(target=target), there)
            written = json.loads((there / "generation_config.json").read_text(encoding="utf-8"))
            assert written == wanted | {"bos_token_id": 0}
    template.write_bytes(b"\xff")
    with pytest.raises(FileError, match=f"{template.name} is not UTF-8"):
        read_huggingface(tmp_path / "theirs")


def test_greedy_continuations_are_theirs_also_beyond_a_cache_without_a_prompt_and_at_an_end(opened):
    model, tokenizer, run, tmp_path = opened
    greedy, endless = SamplingOptions(temperature=0), SamplingOptions(temperature=0, stop=False)
    theirs, window = tokenizer.encode(TEXT).ids, run.options.data.window
    prompt, n = torch.tensor([theirs]), min(window - len(theirs), 24)

    def generate(**options):
        return model.generate(prompt, max_new_tokens=n, do_sample=False, **options)[0, len(theirs) :].tolist()

    text = generate(eos_token_id=None)
    written = [int(i) for (i,) in islice(sample(run.model, [run.target.encode(TEXT)], window, greedy), n)]
    assert [run.target._theirs[i] for i in written] == text
    # without a prompt, theirs begins with bos_token_id, whether or not its tokeniser adds it to a text
    wanted = model.generate(max_new_tokens=6, do_sample=False, eos_token_id=None, suppress_tokens=[0, 1])
    written = islice(sample(run.model, np.zeros((1, 0), int), window, greedy, forbidden=[run.target.ours[1]]), 6)
    assert [run.target._theirs[int(i)] for (i,) in written] == wanted[0, 1:].tolist()
    for turn, ends in enumerate(([text[4]], [303, text[4]], [text[7], text[6]])):
        (tmp_path / "theirs" / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
        write_run(read_huggingface(tmp_path / "theirs"), tmp_path / f"{turn}")
        run = mt.load(tmp_path / f"{turn}")
        ids = run.target.encode(TEXT)
        for chosen, rules in ((greedy, {}), (endless, {"suppress_tokens": ends})):
            wanted = generate(eos_token_id=None if rules else ends, **rules)
            found = islice(sample(run.model, [ids], window, chosen, ends=run.target.ends), n)
            assert [run.target._theirs[i] for (i,) in found] == wanted
            ours = [run.target.ours[i] for i in wanted if i not in ends]
            assert run.write(TEXT, n, chosen) == TEXT + "".join(run.target.stream(ids, ours))


def test_a_long_prompt_padding_and_a_cache_change_nothing(opened):
    model, _, run, _ = opened
    greedy, window = SamplingOptions(temperature=0), run.options.data.window
    long = run.target.encode(TEXT * 5)
    assert len(long) > window
    written = [int(i) for (i,) in islice(sample(run.model, [long], window, greedy), 8)]
    read = [run.target._theirs[i] for i in [1] * run.options.model.start_token + long[-(window // 2) :]]
    wanted = model.generate(torch.tensor([read]), max_new_tokens=8, do_sample=False, eos_token_id=None)
    assert [run.target._theirs[i] for i in written] == wanted[0, len(read) :].tolist()

    rows, lengths = np.zeros((3, 20), int), (20, 7, 1)
    for row, n in enumerate(lengths):
        rows[row, :n] = long[:n]
    together = run.model.decode(rows).numpy()
    for row, n in enumerate(lengths):
        alone, cache = run.model.decode(rows[row : row + 1, :n]).numpy()[0], run.model.new_cache(1)
        steps = [run.model.step(rows[row : row + 1, i : i + 1], cache)[0, 0] for i in range(n)]
        np.testing.assert_allclose(together[row, :n], alone, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(steps, alone, rtol=1e-9, atol=1e-9)


def test_what_was_opened_is_written_with_the_same_weights_and_tokens(opened):
    model, tokenizer, run, tmp_path = opened
    write_huggingface(run, tmp_path / "there")
    again, report = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "there", output_loading_info=True)
    assert not any(report.values())
    assert type(again).__name__.replace("Llama", "Mistral") == type(model).__name__.replace("Llama", "Mistral")
    weights = again.state_dict()
    assert weights.keys() == model.state_dict().keys()
    assert all(torch.equal(weights[name], value) for name, value in model.state_dict().items())
    ids = tokenizer.encode(TEXT).ids
    there = transformers.AutoTokenizer.from_pretrained(tmp_path / "there")
    assert there(TEXT)["input_ids"] == ids
    assert there.chat_template == CHAT
    assert again.generation_config.eos_token_id == again.config.eos_token_id == [0, 5]
    both = (one(torch.tensor([ids])).logits.detach().numpy() for one in (again, model))
    np.testing.assert_allclose(*both, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen2"])
def test_the_converter_of_ctranslate2_reads_what_is_written_for_transformers(tmp_path, name):
    ctranslate2 = pytest.importorskip("ctranslate2", reason="CTranslate2 is not installed")
    model, tokenizer = save(tmp_path / "theirs", name, torch.float32, vocab_size=300)
    write_run(read_huggingface(tmp_path / "theirs"), tmp_path / "run")
    run, there, converted = mt.load(tmp_path / "run"), str(tmp_path / "there"), str(tmp_path / "converted")
    with pytest.raises(ExportError, match=r"--to huggingface.*ct2-transformers-converter --model FOLDER"):
        write_ctranslate2(run, tmp_path / "there")
    write_huggingface(run, tmp_path / "there")
    ctranslate2.converters.TransformersConverter(there).convert(converted)
    text = tokenizer.encode(TEXT)
    found = np.array(ctranslate2.Generator(converted).forward_batch([text.tokens]))
    wanted = model(torch.tensor([text.ids])).logits.detach().numpy()
    np.testing.assert_allclose(found, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize("name", ["gpt2", "llama 3", "mistral", "qwen2"])
def test_it_is_looked_at_trained_on_and_written_for_transformers(tmp_path, capsys, name):
    save(tmp_path / "theirs", name, torch.float32)
    write_run(read_huggingface(tmp_path / "theirs"), tmp_path / "run")
    run, text, on, there = (str(tmp_path / one) for one in ("run", "text", "on", "there"))
    (tmp_path / "text").write_text(f"{TEXT}\n" * 60, encoding="utf-8")
    assert main(["attention", run, "The animal"]) == 0
    session = Session(mt.load(run), RunFolder(run))
    assert session.translate({"text": "The animal"})["text"].startswith("The animal")
    steps = session.trace({"text": "The animal"})["steps"]
    (step, *_) = (one["key"] for one in steps if one["operation"].endswith("_attention"))
    edited = session.trace({"text": "The animal", "edits": [{"kind": "head_off", "step": step, "head": 1}]})
    assert edited["prediction"]["before"] != edited["prediction"]["after"]
    options = ["--steps", "1", "--workers", "2", "--loss-block", "8", "--label-smoothing", "0.1", "--window", "20"]
    options += ["--lora", "2"] * (name == "mistral")
    options = ["--from", run, "--text", text, "--out", on, *options, "--keep-good", text]
    assert main(["train", "characters", *options, text]) == 2
    assert "found files in --keep-good: 2, expected one text" in capsys.readouterr().err
    assert main(["train", "characters", *options]) == 0
    assert set(json.loads((tmp_path / "on" / "adaptation.json").read_text())) == {"held out", "kept good"}
    last, rng = mt.runs.load(on, "last"), np.random.default_rng(1)
    shown = sample(last.model, np.zeros((1, 0), int), 20, SamplingOptions(temperature=0.8), rng, forbidden=[3])
    shown = "".join(last.target.stream([], [int(i) for (i,) in islice(shown, 160)]))
    assert shown.replace("\n", "") in capsys.readouterr().out.replace("\n  | ", "")
    assert main(["measure", "heads", on, "--pairs", "8"]) == 0
    assert main(["export", on, "--to", "huggingface", "--out", there]) == 0
    assert ("note: config.json says that a text has at most 20 tokens" in capsys.readouterr().out) == (name != "gpt2")
    first, adapted = mt.load(run), mt.load(on)
    assert not np.array_equal(*(one.model.decoder.layers[0].self_attention.w_in.data for one in (first, adapted)))
    ids = np.array([adapted.target.encode("The animal didn't")])
    found = adapted.model.decode(ids).numpy()[..., list(map(adapted.target.ours.get, range(304)))]
    theirs = transformers.AutoModelForCausalLM.from_pretrained(there)
    wanted = theirs(torch.tensor([[adapted.target._theirs[i] for i in ids[0]]])).logits.detach().numpy()
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_the_commands_open_write_and_measure_it(tmp_path, capsys):
    model, tokenizer = save(tmp_path / "theirs", "llama 3", torch.float32)
    text = tmp_path / "text"
    text.write_text(f"{TEXT}\n", encoding="utf-8")
    run = str(tmp_path / "run")
    assert main(["import", "huggingface", str(tmp_path / "theirs"), "--out", run]) == 0
    assert f'next: minitransformer write {run} "a text"' in capsys.readouterr().out
    assert main(["write", run, "The animal", "--length", "3", "--temperature", "0"]) == 0
    assert capsys.readouterr().out.startswith("The animal")
    assert main(["evaluate", run, "--source", str(text)]) == 0
    ids = torch.tensor([tokenizer.encode(TEXT).ids])
    perplexity = float(torch.exp(model(ids, labels=ids).loss))
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("perplexity"))
    assert float(line.split()[1]) == pytest.approx(perplexity, rel=1e-4)
    assert main(["evaluate", run]) == 2
    assert "holds no text to measure the model on; give a text with --source FILE" in capsys.readouterr().err


def test_weights_in_several_files_and_of_16_bits(tmp_path):
    model, _ = save(tmp_path / "theirs", "qwen2", torch.bfloat16)
    (tmp_path / "theirs" / "model.safetensors").unlink()
    model.save_pretrained(tmp_path / "theirs", max_shard_size="10KB")
    assert len([*(tmp_path / "theirs").glob("model-*.safetensors")]) > 1
    state = read_huggingface(tmp_path / "theirs").state
    save(tmp_path / "small", "qwen2", vocab_size=290)
    with pytest.raises(FileError, match="has tokens up to 299, expected ids below 290, the vocab_size"):
        read_huggingface(tmp_path / "small")
    wanted = model.model.layers[1].mlp.down_proj.weight.detach().float().numpy().T
    np.testing.assert_array_equal(state["decoder.layers.1.feed_forward.w2"], wanted)
