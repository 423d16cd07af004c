"""slowest.py FILE [N]: the N (15) slowest entries of CTest's JUnit file, and the sum of all."""
import sys
import xml.etree.ElementTree


def seconds(file):
    """Pairs (seconds, name), the slowest first; entries that did not run are left out."""
    cases = xml.etree.ElementTree.parse(file).iter("testcase")
    times = [(float(case.get("time")), case.get("name")) for case in cases if case.get("status") in ("run", "fail")]
    return sorted(times, key=lambda pair: (-pair[0], pair[1]))


def main(file, count="15"):
    times = seconds(file)
    shown = times[:int(count)]
    print(f"the {len(shown)} slowest of {len(times)} tests, {sum(time for time, _ in times):.1f} s together:")
    for time, name in shown:
        print(f"{time:8.1f} s  {name}")


if __name__ == "__main__":
    main(*sys.argv[1:])
