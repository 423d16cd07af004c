"""Plants faults in transformations, plans and executors, one at a time, in a copy of the sources, and
prints the number of the first program by which schedule_proofs finds each:
plant_faults.py COPY BUILD [NAME ...]. COPY is a copy of the repository, whose build in BUILD is
configured. docs/coconet.md has the table."""
import pathlib
import re
import subprocess
import sys

# name, file, text, the wrong text
FAULTS = [
    ("a block lost", "execute/executor_memory.cpp",
     "  for (const Range& range : own_ranges(from.count)) {\n    const std::byte* source",
     "  std::vector<Range> most = own_ranges(from.count);\n  if (most.size() > 1) most.pop_back();\n"
     "  for (const Range& range : most) {\n    const std::byte* source"),
    ("a wrong owner", "execute/executor_memory.cpp",
     "owners_.ranges(rank_, {first, first + count})", "owners_.ranges((rank_ + 1) % ranks_, {first, first + count})"),
    ("a part released before it is computed", "execute/plan_executor.cpp",
     "    loop.run(part.begin, part.size(), nullptr, nullptr);\n    production.release();",
     "    production.release();\n    loop.run(part.begin, part.size(), nullptr, nullptr);"),
    ("a root ignored", "execute/plan_executor.cpp",
     "ranks.reduce(result, root.attributes().root, reduce_op(root)", "ranks.reduce(result, 0, reduce_op(root)"),
    ("a product's wrong cut", "execute/layer_product.cpp",
     "all.narrow(summed, own.begin, own.size())", "all.narrow(summed, 0, own.size())"),
    ("a missing wait", "execute/plan_executor.cpp",
     "  memory.copy_own(part, whole);\n  ranks.fused({.contributions = {}, .results = whole.data}, "
     "collective_options(statement)).wait();",
     "  memory.copy_own(part, whole);\n  (void)ranks.fused({.contributions = {}, .results = whole.data}, "
     "collective_options(statement));"),
    ("an update before a reader", "language/statement_order.cpp",
     "if (update != updates.end() && update->second != statement.name)",
     "if (false && update != updates.end() && update->second != statement.name)"),
    ("a wrong dropout offset", "execute/step_loop.cpp", "mask.first = begin;", "mask.first = begin - begin % 8;"),
    ("a collective over another group", "execute/executor_ranks.cpp", "number_ * ranks);", "0);"),
    ("a stale read", "plan/lowering.cpp", "if (after && read.refers_to(tensor)) return false;",
     "if (after && read.refers_to(tensor)) return true;"),
    ("a sum in the place of what is still read", "plan/lowering.cpp",
     "program_.consumers_of(local).size() == 1 && !home.empty()",
     "program_.consumers_of(local).size() >= 1 && !home.empty()"),
    ("a reduction of parts that adds maxima", "transform/reorder.cpp",
     "add(statement.name, all_reduce(reduction, Expression::reference(part)), statement);",
     "add(statement.name, all_reduce(Reduction::sum, Expression::reference(part)), statement);"),
    ("a join that forgets the reduction", "transform/transformation.cpp",
     "whole : all_reduce(part.attributes().reduction, whole);", "whole : all_reduce(Reduction::sum, whole);"),
    ("a block's sum lost", "execute/step_loop.cpp",
     "for (const Partial& partial : partials) rows",
     "for (const Partial& partial : partials)\n"
     "    if (partial.begin == partials.front().begin || partial.begin % inner == 0) rows"),
    ("a row of another index", "execute/step_loop.cpp",
     "offset += element % extents_[i] * broadcast.strides[i];",
     "offset += (i == 0 ? 0 : element % extents_[i]) * broadcast.strides[i];"),
]


def main():
    copy, build = map(pathlib.Path, sys.argv[1:3])
    for name, file, right, wrong in FAULTS:
        if len(sys.argv) > 3 and name not in sys.argv[3:]:
            continue
        path = copy / "src/overlap" / file
        text = path.read_text()
        if text.count(right) != 1:
            sys.exit(f"{file} has not one place for '{name}': bring this file up to date")
        path.write_text(text.replace(right, wrong))
        try:
            subprocess.run(["cmake", "--build", build, "-j1", "--target", "schedule_proofs"], check=True,
                           stdout=subprocess.DEVNULL)
            command = [build / "bin/schedule_proofs", "--programs", "1500", "--execute", "800", "--first"]
            try:
                said = subprocess.run(command, capture_output=True, text=True, timeout=300).stdout
                found = re.search(r"the first program that differs is number (\d+)", said)
                number = found.group(1) if found else "none"
            except subprocess.TimeoutExpired:
                number = "a hang"
        finally:
            path.write_text(text)
        print(f"| {name} | `overlap/{file}` | {number} |", flush=True)


if __name__ == "__main__":
    main()
