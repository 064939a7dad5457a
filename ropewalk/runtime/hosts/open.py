"""Which host a setup asks for."""

from ropewalk.runtime.crew import Crew
from ropewalk.runtime.hosts.inline import InlineCrew
from ropewalk.runtime.hosts.local import LocalCrew
from ropewalk.runtime.roles import Setup


def open_crew(setup: Setup) -> Crew:
    """One process: inline. More: local."""
    return InlineCrew(setup) if setup.processes == 1 else LocalCrew(setup)
