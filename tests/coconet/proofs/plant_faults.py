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
    ("a block lost", "overlap/execute/flat_memory.cpp",
     "  for (const Range& range : own_ranges(from.count)) {\n    const std::byte* source",
     "  std::vector<Range> most = own_ranges(from.count);\n  if (most.size() > 1) most.pop_back();\n"
     "  for (const Range& range : most) {\n    const std::byte* source"),
    ("a wrong owner", "overlap/execute/flat_memory.cpp",
     "owners_.ranges(rank_, {first, first + count})", "owners_.ranges((rank_ + 1) % ranks_, {first, first + count})"),
    ("a part released before it is computed", "overlap/execute/plan_steps.cpp",
     "    loop.run(production.parts()[number], nullptr, nullptr);\n    production.release();",
     "    production.release();\n    loop.run(production.parts()[number], nullptr, nullptr);"),
    ("a root ignored", "overlap/execute/plan_steps.cpp",
     "ranks_.reduce(result, attributes.root,", "ranks_.reduce(result, 0,"),
    ("a product's wrong cut", "overlap/execute/layer_product.cpp",
     "all.narrow(summed, own.begin, own.size())", "all.narrow(summed, 0, own.size())"),
    ("a missing wait", "overlap/execute/plan_steps.cpp",
     "  ranks_.fused({.contributions = {}, .results = home(statement).data}, collective_options(statement)).wait();",
     "  (void)ranks_.fused({.contributions = {}, .results = home(statement).data}, collective_options(statement));"),
    ("an update before a reader", "coconet/language/statement_order.cpp",
     "if (update != updates.end() && update->second != statement.name)",
     "if (false && update != updates.end() && update->second != statement.name)"),
    ("a wrong dropout offset", "overlap/execute/step_loop.cpp", "mask.first = piece.elements.begin;",
     "mask.first = piece.elements.begin - piece.elements.begin % 8;"),
    ("a collective over another group", "overlap/execute/executor_ranks.cpp", "number_ * ranks);", "0);"),
    ("a stale read", "coconet/plan/value_homes.cpp",
     "if (after && std::ranges::count(read, tensor) > 0) return false;",
     "if (after && std::ranges::count(read, tensor) > 0) return true;"),
    ("a sum in the place of what is still read", "coconet/plan/value_homes.cpp",
     "local.readers.size() == 1 && place", "local.readers.size() >= 1 && place"),
    ("a reduction of parts that adds maxima", "coconet/transform/reorder.cpp",
     "add(statement.name, all_reduce(reduction, Expression::reference(part)), statement);",
     "add(statement.name, all_reduce(ReduceOp::sum, Expression::reference(part)), statement);"),
    ("a join that forgets the reduction", "coconet/transform/transformation.cpp",
     "whole : all_reduce(part.attributes().reduction, whole);", "whole : all_reduce(ReduceOp::sum, whole);"),
    ("a block's sum lost", "overlap/execute/flat_loop.cpp",
     "for (LoopPartial& partial : partials) partial.row",
     "std::erase_if(partials, [&](const LoopPartial& one) {\n"
     "      return one.begin != partials.front().begin && one.begin % inner != 0;\n    });\n"
     "    for (LoopPartial& partial : partials) partial.row"),
    ("a row of another index", "overlap/execute/flat_loop.cpp",
     "place += element % extents_[i] * operand.strides[i];",
     "place += (i == 0 ? 0 : element % extents_[i]) * operand.strides[i];"),
]


def main():
    copy, build = map(pathlib.Path, sys.argv[1:3])
    for name, file, right, wrong in FAULTS:
        if len(sys.argv) > 3 and name not in sys.argv[3:]:
            continue
        path = copy / "src" / file
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
        print(f"| {name} | `{file}` | {number} |", flush=True)


if __name__ == "__main__":
    main()
