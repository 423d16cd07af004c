#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <span>

#include <ATen/core/grad_mode.h>

#include <axonn/core/error.hpp>

#include "checkpoint_commands.hpp"
#include "tensor_source.hpp"

namespace {

struct Row {
  std::string name, shape;
  double greatest = 0;    // |a - b|
  double difference = 0;  // greatest / max |b|
};

bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.view(at::kByte).equal(b.view(at::kByte));
}

// Numbers that are no numbers in one tensor only are an infinite difference.
Row compare(const SourceTensor& a, const SourceTensor& b) {
  Row row{.name = a.name, .shape = a.shape_text()};
  const at::Tensor left = a.read().contiguous().flatten(), right = b.read().contiguous().flatten();
  if (left.numel() == 0 || same_bits(left, right)) return row;
  const at::Tensor x = left.to(at::kDouble), y = right.to(at::kDouble);
  const at::Tensor apart = x.sub(y).abs().masked_fill_(x.eq(y).logical_or_(x.isnan().logical_and_(y.isnan())), 0.0);
  row.greatest =
      apart.isnan().any().item<bool>() ? std::numeric_limits<double>::infinity() : apart.max().item<double>();
  const double scale = y.abs().nan_to_num_().max().item<double>();
  row.difference = row.greatest == 0 ? 0 : row.greatest / scale;  // infinite where b is zero
  return row;
}

using Named = std::map<std::string, const SourceTensor*>;

Named by_name(const std::vector<SourceTensor>& tensors) {
  Named named;
  for (const SourceTensor& each : tensors) named.emplace(each.name, &each);
  return named;
}

int print_missing(const Named& in, const Named& other, const std::string& where) {
  int missing = 0;
  for (const auto& [name, tensor] : in)
    if (!other.contains(name)) {
      std::printf("only in %s: %s %s\n", where.c_str(), name.c_str(), tensor->shape_text().c_str());
      ++missing;
    }
  return missing;
}

}  // namespace

int compare_tensors(const CheckpointOptions& options) {
  const at::NoGradGuard no_grad;
  AXONN_CHECK(options.paths.size() == 2, "axonn_checkpoint", "diff needs two paths, got ", options.paths.size());
  const bool files = is_state_dict(options.paths[0]) || is_state_dict(options.paths[1]);
  std::vector<std::vector<SourceTensor>> sides;
  for (const std::string& path : options.paths) {
    const bool file = is_state_dict(path);
    const std::string group = !files || file || !options.group.empty() ? options.group : "weights";
    sides.push_back(tensors_of(path, file ? "" : group));
  }
  const Named left = by_name(sides[0]), right = by_name(sides[1]);
  int differ = print_missing(left, right, options.paths[0]) + print_missing(right, left, options.paths[1]);
  std::vector<Row> rows;
  size_t equal = 0;
  for (const auto& [name, a] : left) {
    const auto b = right.find(name);
    if (b == right.end()) continue;
    if (a->shape != b->second->shape) {
      std::printf("%s is %s in %s and %s in %s\n", name.c_str(), a->shape_text().c_str(), options.paths[0].c_str(),
                  b->second->shape_text().c_str(), options.paths[1].c_str());
      ++differ;
      continue;
    }
    rows.push_back(compare(*a, *b->second));
    if (rows.back().greatest == 0) ++equal;
    if (rows.back().difference > options.tolerance) ++differ;
  }
  std::ranges::stable_sort(rows, std::greater{}, &Row::difference);
  const size_t shown = std::min(rows.size() - equal, static_cast<size_t>(options.most));
  if (shown > 0) std::printf("| tensor | shape | max abs(a - b) | of max abs(b) |\n| --- | --- | --- | --- |\n");
  for (const Row& row : std::span(rows).first(shown))
    std::printf("| %s | %s | %.3g | %.3g |\n", row.name.c_str(), row.shape.c_str(), row.greatest, row.difference);
  std::printf("%zu tensors in both, %zu equal%s; %d beyond the tolerance of %g\n", rows.size(), equal,
              rows.size() - equal > shown ? ", the greatest differences shown" : "", differ, options.tolerance);
  return differ > 0 ? 1 : 0;
}
