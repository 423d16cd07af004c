#include "foreign/foreign_programs.hpp"

#include <algorithm>

#include <axonn/core/error.hpp>

namespace {

constexpr const char* kWhere = "axonn_config.export";

}  // namespace

void refuse_degree(const ForeignWords& words, const std::string& key) {
  const int64_t degree = number_of(words, key, 1);
  AXONN_CHECK(degree == 1, kWhere, "'", key, "' is ", degree, ": such a layout is no grid of ours; see --what-if");
}

axonn::ContextSplit context_of(const ForeignWords& words, const std::string& key, const std::string& how,
                               const std::string& passes, const std::string& gathers) {
  axonn::ContextSplit context = {.ranks = number_of(words, key, 1)};
  if (context.ranks == 1) return context;
  AXONN_CHECK(how == passes || how == gathers, kWhere, "keys and values go by '", how, "': give ", passes, " or ",
              gathers);
  context.gathers = how == gathers;
  return context;
}

void set_batch(ForeignLayout& layout, const GivenBatch& given) {
  const int64_t ranks = std::max<int64_t>(int64_t{layout.grid.z} * layout.grid.data / layout.context.ranks, 1),
                passes = std::max<int64_t>(given.passes, 1);
  layout.micro_batch = given.micro > 0 ? given.micro : std::max<int64_t>(given.all / (ranks * passes), 1);
  layout.batch = given.all > 0 ? given.all : ranks * layout.micro_batch * passes;
  AXONN_CHECK(layout.batch % (ranks * layout.micro_batch) == 0, kWhere, "a batch of ", layout.batch,
              " sequences must divide by the ", ranks, " ranks that share it and by their micro-batch of ",
              layout.micro_batch, ": give another batch");
}
