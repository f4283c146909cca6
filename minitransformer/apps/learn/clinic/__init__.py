"""The clinic: ten training scripts with one fault each, to be diagnosed and corrected.

==================  =========================================================================
``healthy.py``      the correct training script; all patients are copies of it
``cases.toml``      what is changed in each copy
``disguise.py``     other names, another order and another seed in each copy
``cases.py``        the patients, and their files in the learner's folder
``examination.py``  runs a script and measures it, in a process of its own
``causes.py``       the possible causes, and the evidence for or against each
``visit.py``        trains a learner's file, judges it, and judges a diagnosis
``show.py``         the measurements as text
==================  =========================================================================

The command is ``minitransformer learn clinic``.
"""

from minitransformer.apps.learn.clinic.cases import Case as Case
from minitransformer.apps.learn.clinic.cases import cases as cases
from minitransformer.apps.learn.clinic.cases import find_case as find_case
from minitransformer.apps.learn.clinic.cases import open_case as open_case
from minitransformer.apps.learn.clinic.causes import CAUSES as CAUSES
from minitransformer.apps.learn.clinic.show import ASK as ASK
from minitransformer.apps.learn.clinic.show import overview as overview
from minitransformer.apps.learn.clinic.visit import Chart as Chart
from minitransformer.apps.learn.clinic.visit import ScriptError as ScriptError
from minitransformer.apps.learn.clinic.visit import diagnose as diagnose
from minitransformer.apps.learn.clinic.visit import examine_text as examine_text
from minitransformer.apps.learn.clinic.visit import find_report as find_report
from minitransformer.apps.learn.clinic.visit import judge as judge
