"""The program of an Executor's job: runs one pickled call and leaves its outcome beside it.

    python _call.py FILE [what it is, for listings]

Reads FILE.call, writes FILE.result.ATTEMPT, whole or not at all. Exits with 1 where the call raised something, so that
the job is a failed one, and is tried again if it has retries.
"""

import os
import pickle
import sys
import traceback


def main(file: str) -> int:
    try:
        with open(f"{file}.call", "rb") as opened:
            call = pickle.load(opened)
    except FileNotFoundError:
        print("nexus_gpu: whoever queued this call has left, and took it along", file=sys.stderr)
        return 1
    # In place of this script's own folder: modules are found as they were where the call was made.
    sys.path[:] = call["path"]
    _find_package()
    from nexus_gpu import _pickled

    where = ""
    try:
        function, args, kwargs = pickle.loads(call["payload"])
        returned, thing = True, function(*args, **kwargs)
    except BaseException as error:
        # Without the frame of this function.
        place = error.__traceback__ and error.__traceback__.tb_next
        where = "".join(traceback.format_exception(type(error), error, place))
        print(where, end="", file=sys.stderr)
        returned, thing = False, error
    _write(f"{file}.result.{os.environ.get('NEXUS_ATTEMPT', '1')}", _pickled.told(returned, thing, where))
    return 0 if returned else 1


def _find_package() -> None:
    """Where it was found by other means than the path this very file says where it is."""
    try:
        import nexus_gpu  # noqa: F401
    except ImportError:
        sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def _write(path: str, content: bytes) -> None:
    try:
        with open(f"{path}.new", "wb") as file:
            file.write(content)
        os.replace(f"{path}.new", path)
    except FileNotFoundError:
        print("nexus_gpu: whoever queued this call has left; nobody is told of its outcome", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
