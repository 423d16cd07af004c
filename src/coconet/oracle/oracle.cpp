#include "axonn/coconet/oracle/oracle.hpp"

#include "axonn/coconet/language/program_work.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/philox.hpp"
#include "axonn/core/process_memory.hpp"
#include "axonn/core/text.hpp"
#include "coconet/language/typing.hpp"
#include "coconet/oracle/element_text.hpp"
#include "coconet/oracle/oracle_memory.hpp"
#include "coconet/oracle/section_runner.hpp"

namespace axonn::coconet {
namespace {

constexpr const char* kWhere = "coconet.oracle";
constexpr double kMostOperations = 2e10;  // minutes

std::vector<double> part_of(const RankValues& values, int rank) {
  return {values.of(rank), values.of(rank) + values.count};
}

// The first element that differs from rank 0's on another rank, in words; "": none.
std::string differing_replicas(const RankValues& values) {
  for (int rank = 1; rank < values.ranks; ++rank)
    for (int64_t i = 0; i < values.count; ++i)
      if (!is_same(values.of(0)[i], values.of(rank)[i]))
        return detail::concatenate(index_text(i, values.extents), " is ", element_text(values.of(0)[i]),
                                   " on rank 0 and ", element_text(values.of(rank)[i]), " on rank ", rank);
  return "";
}

OracleValue whole_value(const OracleEntry& entry) {
  const RankValues& values = entry.values;
  OracleValue whole = {
      .distribution = entry.type.distribution, .extents = values.extents, .parts = {}, .givers = {}, .fault = {}};
  if (whole.distribution.is(Placement::local)) {
    for (int rank = 0; rank < values.ranks; ++rank) whole.parts.push_back(part_of(values, rank));
    return whole;
  }
  if (whole.distribution.is(Placement::replicated)) whole.fault = differing_replicas(values);
  whole.parts.emplace_back();
  for (int64_t i = 0; i < values.count; ++i) {
    const int holder = entry.holders[static_cast<size_t>(i)], giver = holder == kEveryRank ? 0 : holder;
    whole.parts[0].push_back(giver < 0 ? missing() : values.of(giver)[i]);
    whole.givers.push_back(giver);
  }
  return whole;
}

}  // namespace

OracleCost oracle_cost(const Program& program, const OracleOptions& options) {
  const ProgramWork work = work_of(program, options.sizes);
  const double ranks = options.ranks, blocks = program.sections().empty() ? 1 : options.blocks;
  constexpr double kBytes = 2 * sizeof(double) + sizeof(int);  // a value, what is taken of it, its holder
  return {work.operations * ranks * blocks, work.elements * ranks * kBytes};
}

void check_oracle_cost(const Program& program, const OracleOptions& options, double runs) {
  const OracleCost cost = oracle_cost(program, options);
  const auto most_bytes = static_cast<double>(free_host_bytes());
  AXONN_CHECK(cost.operations * runs <= kMostOperations && cost.bytes <= most_bytes, kWhere, program.name(), " on ",
              options.ranks, " ranks takes ", with_unit(cost.operations * runs), " operations on single elements and ",
              bytes_text(cost.bytes), " in the oracle, more than ", with_unit(kMostOperations), " or the ",
              bytes_text(most_bytes), " that are free: choose smaller sizes or fewer ranks");
}

OracleResult run_oracle(const Program& program, const OracleInputs& inputs, const OracleOptions& options) {
  AXONN_CHECK(options.ranks >= 1, kWhere, "a group has at least one rank, got ", options.ranks);
  AXONN_CHECK(options.blocks >= 1, kWhere, "a section has at least one block, got ", options.blocks);
  check_oracle_cost(program, options);
  OracleMemory memory(program, inputs, options);
  StatementRunner runner(program, options, memory);
  SectionRunner(program, options, runner).run_program();
  OracleResult result;
  for (const std::string& output : program.outputs()) result.outputs[output] = whole_value(memory.at(output));
  for (const Declaration& declaration : program.declarations())
    if (program.update_of(declaration.name) != nullptr)
      result.states[declaration.name] = whole_value(memory.at(declaration.name));
  return result;
}

OracleInputs random_inputs(const Program& program, const OracleOptions& options, uint64_t seed) {
  const double bytes = work_of(program, options.sizes).elements * options.ranks * sizeof(double);
  AXONN_CHECK(bytes <= static_cast<double>(free_host_bytes()), kWhere, program.name(), " on ", options.ranks,
              " ranks has up to ", bytes_text(bytes), " of inputs, and ",
              bytes_text(static_cast<double>(free_host_bytes())), " are free: choose smaller sizes or fewer ranks");
  OracleInputs inputs;
  for (const Declaration& declaration : program.declarations()) {
    if (declaration.type == scalar_type()) continue;
    const int64_t count = count_of(extents_of(declaration.type.shape, options.sizes));
    const uint32_t stream = philox_stream("oracle", declaration.name);
    const int parts = declaration.type.distribution.is(Placement::local) ? options.ranks : 1;
    for (int part = 0; part < parts; ++part) {
      std::vector<double>& numbers = inputs[declaration.name].emplace_back();
      for (int64_t i = 0; i < count; ++i)
        numbers.push_back(0.5 +
                          to_uniform(philox(seed, static_cast<uint64_t>(i), static_cast<uint32_t>(part), stream)[0]));
    }
  }
  return inputs;
}

}  // namespace axonn::coconet
