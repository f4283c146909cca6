"""The clinic: ten training scripts with one fault each, to be diagnosed and corrected.

=======================  ==========================================================================
``healthy.py``           the correct training script; all broken scripts are copies of it
``broken_scripts.toml``  what is changed in each copy
``disguise.py``          other names, another order and another seed in each copy
``broken_scripts.py``    the broken scripts, and their files in the learner's folder
``examination.py``       runs a script and measures it, in a process of its own
``causes.py``            the possible causes, and the evidence for or against each
``visit.py``             trains a learner's file, judges it, and judges a diagnosis
``show.py``              the measurements as text
=======================  ==========================================================================

The command is ``minitransformer learn clinic``.
"""

from minitransformer.apps.learn.clinic.broken_scripts import BrokenScript, broken_scripts, find_script, open_script
from minitransformer.apps.learn.clinic.causes import CAUSES
from minitransformer.apps.learn.clinic.show import ASK, overview
from minitransformer.apps.learn.clinic.visit import Progress, ScriptError, diagnose, examine_text, find_report, judge
