"""The Transformer and its parts, named as in the paper, and a decoder alone.

=====================  ==============================================================================
``options.py``         ``ModelOptions``: the options of a model
``module.py``          ``Module`` and ``Parameter``: how parts hold their parameters
``layers.py``          the sub-layers: multi-head attention, feed-forward, residual with layer norm
``cache.py``           ``Cache``: keys and values that the decoder keeps between steps
``embedding.py``       token embeddings with their positions
``encoder.py``         the encoder and its layers
``decoder.py``         the decoder and its layers
``model.py``           what both models have in common
``transformer.py``     the whole model
``language_model.py``  a decoder alone, as in GPT
``recompute.py``       recomputation of layers in the backward pass, to save memory
=====================  ==============================================================================
"""

from minitransformer.nn.cache import Cache, KeysAndValues, LayerCache
from minitransformer.nn.decoder import Decoder, DecoderLayer
from minitransformer.nn.embedding import Embedding, scale_and_place
from minitransformer.nn.encoder import Encoder, EncoderLayer
from minitransformer.nn.language_model import LanguageModel
from minitransformer.nn.layers import FeedForward, LayerNorm, MultiHeadAttention, Residual
from minitransformer.nn.model import Model
from minitransformer.nn.module import Module, Parameter, check_sizes, normal, weights, xavier
from minitransformer.nn.options import ModelOptions
from minitransformer.nn.recompute import recompute
from minitransformer.nn.transformer import Transformer

__all__ = [
    "Cache",
    "Decoder",
    "DecoderLayer",
    "Embedding",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KeysAndValues",
    "LanguageModel",
    "LayerCache",
    "LayerNorm",
    "Model",
    "ModelOptions",
    "Module",
    "MultiHeadAttention",
    "Parameter",
    "Residual",
    "Transformer",
    "check_sizes",
    "normal",
    "recompute",
    "scale_and_place",
    "weights",
    "xavier",
]
