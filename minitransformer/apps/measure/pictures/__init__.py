"""Pictures of what was measured: each function takes the result of an experiment and returns a figure for ``save``.

matplotlib is loaded when this package is, so import it only where pictures are wanted.
"""

from minitransformer.apps.measure.pictures.changes import changes_picture as changes_picture
from minitransformer.apps.measure.pictures.heads import heads_picture as heads_picture
from minitransformer.apps.measure.pictures.recall import extrapolation_picture as extrapolation_picture
from minitransformer.apps.measure.pictures.recall import positions_picture as positions_picture
from minitransformer.apps.measure.pictures.recall import recall_picture as recall_picture
from minitransformer.apps.measure.pictures.speed import growth_curves as growth_curves
from minitransformer.apps.measure.pictures.speed import speed_bars as speed_bars
from minitransformer.apps.measure.pictures.table1 import paths_picture as paths_picture
from minitransformer.apps.measure.pictures.table1 import table1_picture as table1_picture
from minitransformer.apps.plots import save as save
