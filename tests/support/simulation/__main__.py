"""Many runs.

``PYTHONPATH=src:tests:tools .venv/bin/python -m support.simulation 1000 3000`` makes those of the seeds from 1000 to
2999; with one number, that of one seed. Those that fail are reported; the exit status is 1 if there are any.
"""

import os
import sys

from support.simulation.runs import failure_of, processes


def main(arguments: list[str]) -> int:
    first, *end = (int(argument) for argument in arguments)
    seeds = range(first, end[0] if end else first + 1)
    failed = 0
    with processes(min(len(seeds), os.cpu_count() or 1)) as pool:
        for failure in pool.map(failure_of, seeds, chunksize=1):
            if failure:
                failed += 1
                print(f"{failure}\n", flush=True)
    print(f"{failed} of {len(seeds)} runs failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
