#include "checkpoint/write/file_layout.hpp"

#include <cstdio>
#include <cstring>
#include <map>

#include <nlohmann/json.hpp>

#include "axonn/checkpoint/safetensors.hpp"

namespace axonn {
namespace {

constexpr int64_t kAlignment = 8;
constexpr int64_t kLengthBytes = 8;
constexpr const char* kFirst = R"({"__metadata__":{"format":"axonn checkpoint 4"})";

// Behind the last entry, so that the header is long enough for aligned data.
std::string end_of_header(int64_t bytes_before) {
  const int64_t end = bytes_before + 1;
  return "}" + std::string(static_cast<size_t>((kAlignment - end % kAlignment) % kAlignment), ' ');
}

std::string begin_of_header(int64_t header_bytes) {
  const auto length = static_cast<uint64_t>(header_bytes - kLengthBytes);
  std::string text(kLengthBytes, '\0');
  std::memcpy(text.data(), &length, sizeof length);
  return text + kFirst;
}

// Fills in the places of parts[first] and those behind it: one file.
void place(FileLayout& layout, size_t first, const std::vector<RankShare>& shares) {
  const auto share = [&](const FileLayout::Part& part) {
    return shares[static_cast<size_t>(part.rank)].parts[part.kind];
  };
  int64_t entries = kLengthBytes + static_cast<int64_t>(std::strlen(kFirst));
  for (size_t i = first; i < layout.parts.size(); ++i) entries += share(layout.parts[i]).entries;
  const std::string end = end_of_header(entries);
  const int64_t header = entries + std::ssize(end);
  layout.parts[first].before = begin_of_header(header);
  layout.parts.back().behind = end;
  int64_t place = 0, data = header;
  for (size_t i = first; i < layout.parts.size(); ++i) {
    FileLayout::Part& part = layout.parts[i];
    const int64_t size = std::ssize(part.before) + share(part).entries + std::ssize(part.behind);
    part.header = {place, place + size};
    part.data = {data, data + share(part).data};
    part.data_begin = data - header;
    place = part.header.end;
    data = part.data.end;
  }
  layout.files.back().bytes = data;
}

}  // namespace

int64_t bytes_of(std::span<const PartTensor> tensors) {
  int64_t bytes = 0;
  for (const PartTensor& tensor : tensors)
    bytes += tensor.elements * static_cast<int64_t>(c10::elementSize(tensor.dtype));
  return bytes;
}

int64_t padding_after(int64_t bytes) { return (kAlignment - bytes % kAlignment) % kAlignment; }

std::string header_entries(std::span<const PartTensor> tensors, int64_t begin) {
  std::string text;
  for (const PartTensor& tensor : tensors) {
    const int64_t end = begin + tensor.elements * static_cast<int64_t>(c10::elementSize(tensor.dtype));
    char offsets[64];
    std::snprintf(offsets, sizeof offsets, "[%16lld,%16lld]", static_cast<long long>(begin),
                  static_cast<long long>(end));
    text += "," + nlohmann::json(tensor.name).dump() + R"(:{"dtype":")" +
            std::string(safetensors::dtype_name(tensor.dtype)) + R"(","shape":[)" + std::to_string(tensor.elements) +
            R"(],"data_offsets":)" + offsets + "}";
    begin = end;
  }
  return text;
}

FileLayout layout_of(const std::vector<RankShare>& shares) {
  std::map<int64_t, std::vector<int>> ranks_of;
  std::vector<int64_t> order;  // files, by their lowest ranks
  for (size_t rank = 0; rank < shares.size(); ++rank) {
    bool writes = false;
    for (const PartShare& part : shares[rank].parts) writes = writes || part.data > 0;
    if (!writes) continue;
    auto& ranks = ranks_of[shares[rank].file];
    if (ranks.empty()) order.push_back(shares[rank].file);
    ranks.push_back(static_cast<int>(rank));
  }
  FileLayout layout;
  for (const int64_t file : order) {
    const size_t first = layout.parts.size();
    layout.files.push_back({0, ranks_of.at(file)});
    for (const int rank : layout.files.back().ranks)
      for (size_t kind = 0; kind < shares[static_cast<size_t>(rank)].parts.size(); ++kind) {
        if (shares[static_cast<size_t>(rank)].parts[kind].data == 0) continue;
        FileLayout::Part part;
        part.file = layout.files.size() - 1;
        part.rank = rank;
        part.kind = kind;
        layout.parts.push_back(std::move(part));
      }
    place(layout, first, shares);
  }
  return layout;
}

}  // namespace axonn
