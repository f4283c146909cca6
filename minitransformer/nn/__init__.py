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

from minitransformer.nn.cache import Cache as Cache
from minitransformer.nn.cache import KeysAndValues as KeysAndValues
from minitransformer.nn.decoder import Decoder as Decoder
from minitransformer.nn.decoder import DecoderLayer as DecoderLayer
from minitransformer.nn.embedding import Embedding as Embedding
from minitransformer.nn.embedding import scale_and_place as scale_and_place
from minitransformer.nn.encoder import Encoder as Encoder
from minitransformer.nn.encoder import EncoderLayer as EncoderLayer
from minitransformer.nn.language_model import LanguageModel as LanguageModel
from minitransformer.nn.layers import FeedForward as FeedForward
from minitransformer.nn.layers import LayerNorm as LayerNorm
from minitransformer.nn.layers import MultiHeadAttention as MultiHeadAttention
from minitransformer.nn.layers import Residual as Residual
from minitransformer.nn.model import Model as Model
from minitransformer.nn.module import Module as Module
from minitransformer.nn.module import Parameter as Parameter
from minitransformer.nn.module import ZeroGenerator as ZeroGenerator
from minitransformer.nn.module import check_sizes as check_sizes
from minitransformer.nn.module import normal as normal
from minitransformer.nn.module import weights as weights
from minitransformer.nn.module import xavier as xavier
from minitransformer.nn.options import ModelOptions as ModelOptions
from minitransformer.nn.recompute import recompute as recompute
from minitransformer.nn.transformer import Transformer as Transformer
from minitransformer.public import public_names

__all__ = public_names(globals())
