"""The setting: offline transfer as usual, and online transfer as the paper frames it."""

from zscout.lab.paper.experiment import Experiment, Runs, Scale, no_specs
from zscout.lab.story import Section


def _tell(scale: Scale, runs: Runs) -> Section:
    text = [
        "Offline, somebody labels states with rewards, regression gives z_r, and the model does the rest. Online "
        "there is nobody to ask beforehand: the algorithm recommends Z_t, the model acts on it for one step, the "
        "environment answers with a state and a reward, and the next recommendation knows a little more.",
        "The whole loop is three lines: `z = agent.ask(obs)`, one step of `bfm.act(obs, z)`, `agent.tell(obs, "
        "reward)`.",
    ]
    return Section("framework", "Transfer, offline and online", text)


FRAMEWORK = Experiment(no_specs, _tell)
