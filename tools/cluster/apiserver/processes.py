"""Child processes that never outlive the tests."""

import os
import shutil
import signal
import subprocess
from pathlib import Path

BIN = Path(__file__).parents[3] / "build" / "bin"


class RunningProgram:
    """One program of build/bin, with its output in a file. It ends with the thread that starts it."""

    def __init__(self, name: str, *arguments: str, log: Path) -> None:
        self.name = name
        self.log = log
        binary = BIN / name
        assert binary.exists(), f"{binary} is missing: run tools/build_binaries.py"
        # setpriv: the kernel ends the program when the tests die, however they die.
        command = [shutil.which("setpriv"), "--pdeathsig", "KILL", str(binary), *arguments]
        with log.open("ab") as output:
            self._process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL)

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        """Fail with the end of the log if the program is not running."""
        if (status := self._process.poll()) is not None:
            raise AssertionError(f"{self.name} ended with {status}:\n{self.last_words()}")

    def last_words(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def kill(self) -> None:
        """End it by force, as a crash does."""
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        """Stop it without ending it: its connections stay open and get no answers."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)  # threads may run on for a moment

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)
