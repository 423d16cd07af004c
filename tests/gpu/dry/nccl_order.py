"""Calls of NCCL by the ranks of a job, compared (records of dry_gpu.py)."""
import collections
import re

UPDATES = ["FusedAdam", "update_adamw"]  # LibTorch's kernel of AdamW, and ours

def calls(record):
    """(communicator's id, call, what must be equal on all members), in the order of this rank. The
    calls of a group are one launch: a list of such."""
    ids, launches, group = {}, [], None
    for kind, fields in record.events:
        if kind == "communicator":
            ids[fields[0]] = fields[1]
        elif kind == "group":
            if fields[0] == "start":
                group = []
            elif group:
                launches.append(group)
            group = group if fields[0] == "start" else None
        elif kind == "nccl":
            call, what, number, _ = fields
            one = (ids[number], call, what)
            if group is None:
                launches.append([one])
            else:
                group.append(one)
    return launches


def between(what):
    """Of a message: its size, and the other member; else all of it, and None."""
    found = re.fullmatch(r"(.*) (?:to|from) (\d+)", what)
    return (found[1], int(found[2])) if found else (what, None)


def unanswered(records):
    """One line for each pair of members of a communicator of which one does not receive what the
    other sends, in the same order."""
    ways = collections.defaultdict(lambda: {"ncclSend": [], "ncclRecv": []})
    for record in records:
        mine = {fields[1]: int(fields[2]) for kind, fields in record.events if kind == "communicator"}
        for launch in calls(record):
            for identity, call, what in launch:
                size, other = between(what)
                if call == "ncclSend":
                    ways[identity, mine[identity], other][call].append(size)
                elif call == "ncclRecv":
                    ways[identity, other, mine[identity]][call].append(size)
    return [f"{identity}: {sender} sends {way['ncclSend']}, {receiver} receives {way['ncclRecv']}"
            for (identity, sender, receiver), way in ways.items() if way["ncclSend"] != way["ncclRecv"]]


def differences(records):
    """One line for each communicator whose members do not call the same in the same order. Messages
    are the same if their sizes are: unanswered() looks at who receives them."""
    by_communicator = collections.defaultdict(dict)
    for rank, record in enumerate(records):
        for launch in calls(record):
            for identity, call, what in launch:
                same = between(what)[0] if call in ("ncclSend", "ncclRecv") else what
                by_communicator[identity].setdefault(rank, []).append((call, same))
    lines = []
    for identity, members in by_communicator.items():
        first, *others = sorted(members)
        for rank in others:
            a, b = members[first], members[rank]
            if a != b:
                at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
                lines.append(f"{identity}: call {at} is {a[at:at + 1]} on rank {first}, {b[at:at + 1]} on rank {rank}")
    return lines


def cycle(records):
    """How many launches lie in a circle, where each rank says which of its launches comes first:
    with more than none, ranks could wait for each other for ever."""
    after, degree = collections.defaultdict(set), collections.Counter()
    for record in records:
        seen, previous = collections.Counter(), None
        for launch in calls(record):
            identity = launch[0][0]
            node = (identity, seen[identity])
            seen[identity] += 1
            degree[node] += 0
            if previous is not None and node not in after[previous]:
                after[previous].add(node)
                degree[node] += 1
            previous = node
    free = [node for node, before in degree.items() if before == 0]
    left = len(degree)
    while free:
        left -= 1
        for node in after[free.pop()]:
            degree[node] -= 1
            if degree[node] == 0:
                free.append(node)
    return left


def not_joined(record):
    """Collectives that an update of AdamW does not come after: the compute stream has not waited
    for them, through however many streams and events."""
    clocks = collections.defaultdict(collections.Counter)  # by stream: how much of each comes before
    marks, waiting, missed = {}, [], []
    for kind, fields in record.events:
        if kind == "nccl":
            stream = fields[3]
            clocks[stream][stream] += 1
            waiting.append((stream, clocks[stream][stream], fields[0]))
        elif kind == "mark":
            marks[fields[1]] = clocks[fields[0]].copy()
        elif kind == "join":
            clocks[fields[0]] |= marks.get(fields[1], collections.Counter())
        elif kind == "kernel" and any(update in fields[0] for update in UPDATES):
            missed += [call for stream, place, call in waiting if clocks[fields[3]][stream] < place]
            waiting = []
    return missed
