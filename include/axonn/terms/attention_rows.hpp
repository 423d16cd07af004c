#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "axonn/core/names.hpp"

namespace axonn {

// Whether the ranks that have the same heads of attention, those along the tensor axis that does
// not split the heads, divide the rows of queries among them (grid/query_rows.hpp). Changes
// rounding. automatic: where that saves more time than it costs by RowsTrade.
enum class AttentionRows : uint8_t { automatic, on, off };

template <>
struct Names<AttentionRows> {
  static constexpr Named<AttentionRows> all[] = {
      {"auto", AttentionRows::automatic}, {"on", AttentionRows::on}, {"off", AttentionRows::off}};
};

// Savings and costs of divided rows in forward and backward of one attention layer: per row, with
// the features that one rank has, and both times the same (ranks - 1) / ranks.
struct RowsTrade {
  double scores = 0;                    // keys that a query sees, in the mean
  double queries = 0, keys_values = 0;  // features of all heads of queries, and of keys and values
  double element_bytes = 4;

  double saved_flops() const { return 12 * scores * queries; }  // 4 in forward, twice as many in backward
  // Outputs and the gradients of queries are gathered; those of keys and values are summed.
  double moved_bytes() const { return 2 * (queries + keys_values) * element_bytes; }
  // `balance`: FLOPs of attention that a rank computes while its axis moves a byte.
  bool pays(double balance) const { return saved_flops() > balance * moved_bytes(); }
};

// The mean number of keys that a query of causal attention sees. `window` 0: all before it.
inline double mean_scores(int64_t sequence, int64_t window) {
  const auto s = static_cast<double>(sequence), w = window > 0 ? std::min(static_cast<double>(window), s) : s;
  return w - w * (w - 1) / (2 * s);
}

// The balances of pays() along x and y. 0: not measured, or one rank.
struct AttentionBalance {
  double x = 0, y = 0;
  bool measured() const { return x > 0 || y > 0; }
  std::string to_string() const;  // "0 41.25", which parse_attention_balance() reads
  bool operator==(const AttentionBalance&) const = default;
};

// UserError for any other text.
AttentionBalance parse_attention_balance(std::string_view text);

// Balances where nobody has measured one: 40 GFLOP/s per rank beside 2 GB/s of shared memory or
// 1 Gbit/s between hosts, and 400 TFLOP/s beside 200 GB/s between GPUs.
inline constexpr double kBalanceInMemory = 20, kBalanceOfMessages = 320, kBalanceOfGpus = 2000;

}  // namespace axonn
