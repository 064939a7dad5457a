"""A Python file of the user's own: run as it stands, only because the user named it."""

import hashlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

from ropewalk.records.errors import InputError


def user_module(path: str | Path, *, what: str, defines: str) -> ModuleType:
    """The module of a file that is to define a name. Raises InputError naming the file and what is wrong with it."""
    file = Path(path).resolve()
    if not file.is_file():
        raise InputError(f"there is no {what} {path}: name a Python file that defines {defines}")
    name = "ropewalk_task_" + hashlib.blake2b(str(file).encode(), digest_size=6).hexdigest()
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file: name one ending in .py that defines {defines}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickling look their module up by name.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        # The user's own code: whatever it raises is told as a fault of that file. Its exit would end the command, and
        # with a 0 even as if all were done.
        del sys.modules[name]
        raise InputError(f"the {what} {path} fails with {type(error).__name__}: {error}") from error
    return module
