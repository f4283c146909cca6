"""PyTorch's training step, as its users would write it: ``nn.Transformer`` and fused Adam, eager or compiled.

The same sizes, batch, masks, loss and optimiser as ours; embeddings are shared and scaled, positions a constant,
dropout on the embeddings. ``nn.Transformer`` does slightly more than ours: it also drops attention weights and the
hidden features of the feed-forward networks, its projections have biases, and encoder and decoder end in one more
layer norm each.

torch is imported only inside the functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from minitransformer.apps.measure.speed.ours import WARM_UP, Program, random_batch, time_steps
from minitransformer.apps.measure.speed.workloads import LABEL_SMOOTHING, LEARNING_RATE, Workload


@contextmanager
def prepare(workload: Workload, compile_it: bool) -> Iterator[Program]:
    """Make PyTorch's program, eager, or model and loss through ``torch.compile`` in its default mode."""
    import torch

    one = stepper(workload, compile_it)

    def step() -> float:
        return float(one().item())

    time_steps(step, WARM_UP)
    description = {"version": torch.__version__, "threads": torch.get_num_threads()}
    yield lambda times: {"seconds": time_steps(step, times)}, description


def stepper(workload: Workload, compile_it: bool = False, device: str = "cpu") -> Callable[[], Any]:
    """Return a function that does one training step and returns the loss, which stays on the device."""
    import torch

    torch.manual_seed(0)
    loss_of = _loss_module(workload).to(device)
    parameters = list(loss_of.parameters())
    optimiser = torch.optim.Adam(parameters, lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=True)
    batch = [torch.from_numpy(ids) for ids in random_batch(workload)]
    if device.startswith("cuda"):
        batch = [ids.pin_memory() for ids in batch]  # as CuPy's asarray does: so that the host need not wait
    run = torch.compile(loss_of) if compile_it else loss_of

    def step() -> Any:
        optimiser.zero_grad()
        # The ids come from the host, as in training and as ours do.
        loss = run(*(ids.to(device, non_blocking=True) for ids in batch))
        loss.backward()
        optimiser.step()
        return loss.detach()

    return step


def _loss_module(workload: Workload) -> Any:
    """Return a module that computes the loss of a batch."""
    import torch
    from torch import nn

    options = workload.model

    class LossModule(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(workload.vocabulary, options.d_model)
            nn.init.normal_(self.embedding.weight, std=options.d_model**-0.5)
            self.transformer = nn.Transformer(
                options.d_model,
                options.n_heads,
                options.n_layers,
                options.decoder_layers,
                options.d_ff,
                dropout=options.dropout,
                batch_first=True,
            )
            self.dropout = nn.Dropout(options.dropout)
            d_model = options.d_model
            angle = torch.arange(workload.length)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
            waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)
            self.register_buffer("positions", waves[:, :d_model])
            self.register_buffer("later", torch.ones(workload.length, workload.length, dtype=torch.bool).triu(1))

        def embed(self, ids: Any) -> Any:
            return self.dropout(self.embedding(ids) * math.sqrt(options.d_model) + self.positions)

        def forward(self, source: Any, target_input: Any, target_output: Any) -> Any:
            y = self.transformer(
                self.embed(source),
                self.embed(target_input),
                tgt_mask=self.later,
                src_key_padding_mask=source == 0,
                tgt_key_padding_mask=target_input == 0,
                memory_key_padding_mask=source == 0,
                tgt_is_causal=True,
            )
            logits = nn.functional.linear(y, self.embedding.weight)
            return nn.functional.cross_entropy(
                logits.reshape(-1, workload.vocabulary),
                target_output.reshape(-1),
                label_smoothing=LABEL_SMOOTHING,
                ignore_index=0,
            )

    return LossModule().train()
