"""What a program in the sandbox may use. Every limit is enforced; none can be switched off."""

from dataclasses import dataclass, fields

from ropewalk.records.errors import InputError

MIB = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds for one program. A test is one run with one input, one call, or one piece of test code."""

    test_seconds: float = 5.0
    """Wall-clock time for one test, loading the program included."""
    program_seconds: float = 20.0
    """Wall-clock time for all tests of a program together; what was not reached by then counts as timed out."""
    cpu_seconds: int = 10
    """Processor time of each process."""
    memory_bytes: int = 512 * MIB
    """Address space of each process, and resident memory of all of them together (looked at ten times a second)."""
    processes: int = 16
    """Processes and threads at one time, the program itself included."""
    open_files: int = 64
    """Descriptors of each process."""
    file_bytes: int = 16 * MIB
    """Size of one file."""
    folder_bytes: int = 32 * MIB
    """Size of the program's folder; a weaker promise without bubblewrap, where only each file is bounded."""
    folder_files: int = 10_000
    """Files and folders in the program's folder, looked at twenty times a second."""
    output_bytes: int = MIB
    """What a program may write to stdout and stderr, and the size of one returned value."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise InputError(f"the sandbox limit {field.name} must be above 0, got {value}")
        if self.program_seconds < self.test_seconds:
            raise InputError(
                f"the sandbox limit program_seconds ({self.program_seconds}) is below test_seconds "
                f"({self.test_seconds}): a program has at least one test"
            )
