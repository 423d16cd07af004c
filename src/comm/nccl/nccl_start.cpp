#include "comm/nccl/nccl_start.hpp"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include "axonn/core/env.hpp"
#include "axonn/core/error.hpp"
#include "comm/nccl/nccl_roots.hpp"

// Weak, so that programs start with an older library than that of the build.
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 0)
#define AXONN_NCCL_SPLITS 1
#pragma weak ncclCommSplit
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 23, 0)
#define AXONN_NCCL_HAS_ROOTS 1
#pragma weak ncclCommInitRankScalable
#endif

namespace axonn {
namespace {

constexpr int kRanksPerRoot = 128;  // as in PyTorch

// Of the library.
[[maybe_unused]] int nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion", nullptr);
  return version;
}

// The newer starts, by headers and library.
bool has_roots() {
#ifdef AXONN_NCCL_HAS_ROOTS
  return nccl_version() >= NCCL_VERSION(2, 23, 0);
#else
  return false;
#endif
}
bool has_splits() {
#ifdef AXONN_NCCL_SPLITS
  return nccl_version() >= NCCL_VERSION(2, 18, 0);
#else
  return false;
#endif
}

int ranks_per_root() {
  const int ranks = env::get_int("AXONN_NCCL_RANKS_PER_ROOT").value_or(kRanksPerRoot);
  AXONN_CHECK(ranks >= 1, "comm.nccl", "AXONN_NCCL_RANKS_PER_ROOT must be at least 1, got ", ranks);
  return ranks;
}

std::vector<int> roots_of(int size) { return has_roots() ? nccl_roots(size, ranks_per_root()) : std::vector<int>{0}; }

// Each root's identity, known to all.
std::vector<ncclUniqueId> exchanged(Communicator& cpu, const std::vector<int>& roots) {
  constexpr auto kBytes = static_cast<int64_t>(sizeof(ncclUniqueId));
  std::vector<int64_t> counts(static_cast<size_t>(cpu.size()), 0);
  for (const int root : roots) counts[static_cast<size_t>(root)] = kBytes;
  const int64_t mine = counts[static_cast<size_t>(cpu.rank())];
  const at::Tensor own = at::zeros({mine}, at::kByte), all = at::empty({kBytes * std::ssize(roots)}, at::kByte);
  if (mine > 0) {
    ncclUniqueId id{};
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId", nullptr);
    std::memcpy(own.mutable_data_ptr(), &id, sizeof id);
  }
  cpu.all_gather(own, all, counts, {.tag = "NCCL start-up"}).wait();
  std::vector<ncclUniqueId> ids(roots.size());
  std::memcpy(ids.data(), all.const_data_ptr(), all.nbytes());
  return ids;
}

}  // namespace

void check_nccl(ncclResult_t result, const char* call, ncclComm_t comm) {
  if (result == ncclSuccess) return;
  const char* const detail = ncclGetLastError(comm);
  throw BackendError("comm.nccl", detail::concatenate(call, ": ", ncclGetErrorString(result),
                                                      detail != nullptr ? "; " : "", detail != nullptr ? detail : ""));
}

std::vector<Setting> nccl_start_settings() {
  return {{"AXONN_NCCL_RANKS_PER_ROOT", std::to_string(ranks_per_root())},
          {"NCCL", has_roots()    ? "2.23 or newer"
                   : has_splits() ? "2.18 to 2.22"
                                  : "older than 2.18"}};
}

NcclStart start_by_identity(Communicator& cpu) {
  const std::vector<ncclUniqueId> ids = exchanged(cpu, roots_of(cpu.size()));
  const int size = cpu.size(), rank = cpu.rank();
#ifdef AXONN_NCCL_HAS_ROOTS
  if (ids.size() > 1)
    return {"ncclCommInitRankScalable", [ids, size, rank](ncclComm_t& made) {
              std::vector<ncclUniqueId> mine = ids;
              ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
              return ncclCommInitRankScalable(&made, size, rank, static_cast<int>(mine.size()), mine.data(), &config);
            }};
#endif
  return {"ncclCommInitRank",
          [id = ids.front(), size, rank](ncclComm_t& made) { return ncclCommInitRank(&made, size, id, rank); }};
}

std::optional<NcclStart> start_by_split([[maybe_unused]] ncclComm_t other, [[maybe_unused]] int rank) {
#ifdef AXONN_NCCL_SPLITS
  if (has_splits())
    return NcclStart{"ncclCommSplit", [other, rank](ncclComm_t& made) {
                       return ncclCommSplit(other, /*color=*/0, /*key=*/rank, &made, /*config=*/nullptr);
                     }};
#endif
  return std::nullopt;
}

}  // namespace axonn
