"""Importing a user's module, and saying where in it an import failed."""

import importlib
import importlib.util
import sys
import traceback
from pathlib import Path
from types import ModuleType

from app.tools.errors import AgentLoadError, DefinitionError


def load_module(place: str) -> ModuleType:
    """A dotted module name or the path of a `.py` file."""
    _search(Path.cwd(), place=0)
    if place.endswith(".py") or "/" in place:
        return _load_file(place)
    return _load_named(place)


def _search(directory: Path, *, place: int) -> None:
    """For good: a user's module may import its neighbours later, inside a function.

    The neighbours of a file come last, where a `queue.py` among them hides nothing.
    """
    if str(directory) not in sys.path:
        sys.path.insert(place, str(directory))


def _load_named(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except DefinitionError:
        raise
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(error.name + ".")):
            reason = f"there is no module {error.name!r} in {Path.cwd()} or the Python path"
            raise AgentLoadError(name, reason) from error
        raise _failure(name, error) from error
    except (Exception, SystemExit) as error:
        raise _failure(name, error) from error


def _load_file(place: str) -> ModuleType:
    path = Path(place).resolve()
    if not path.is_file():
        raise AgentLoadError(place, f"there is no such file ({path})")
    name = f"perdure_agents:{path}"
    if name in sys.modules:
        return sys.modules[name]
    _search(path.parent, place=len(sys.path))
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise AgentLoadError(place, "is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, DefinitionError) or not isinstance(error, Exception | SystemExit):
            raise
        raise _failure(place, error) from error
    return module


def _failure(place: str, error: BaseException) -> AgentLoadError:
    """Names the deepest line of the file that was being loaded, and where that led."""
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return AgentLoadError(f"{error.filename}:{error.lineno}", f"SyntaxError: {error.msg}")
    reason = f"could not be imported: {type(error).__name__}: {error}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_theirs(frame)]
    if not frames:
        return AgentLoadError(place, reason)
    deepest = [frame for frame in frames if frame.filename == frames[0].filename][-1]
    if frames[-1] is not deepest:
        reason += f" (raised at {_line(frames[-1])})"
    return AgentLoadError(_line(deepest), reason)


def _is_theirs(frame: traceback.FrameSummary) -> bool:
    machinery = (__file__, importlib.__file__)
    return frame.filename not in machinery and not frame.filename.startswith("<frozen importlib")


def _line(frame: traceback.FrameSummary) -> str:
    return f"{frame.filename}:{frame.lineno}"
