#include "axonn/data/folder/files_read.hpp"

#include <algorithm>

#include "axonn/core/error.hpp"
#include "axonn/core/text.hpp"
#include "axonn/core/utf8.hpp"

namespace axonn {
namespace {

constexpr size_t kNames = 3;

std::string bytes_text_of(int64_t bytes) {
  const std::string count = with_unit(static_cast<double>(bytes));
  return count + (count.find(' ') == std::string::npos ? " B" : "B");
}

struct Group {
  std::string reason, names;
  size_t count = 0;
};

}  // namespace

std::string FilesRead::left_out_text() const {
  std::vector<Group> groups;
  for (const LeftOut& one : left_out) {
    auto group = std::ranges::find(groups, one.reason, &Group::reason);
    if (group == groups.end()) group = groups.insert(groups.end(), {.reason = one.reason, .names = "", .count = 0});
    if (++group->count <= kNames) group->names += (group->count == 1 ? " " : ", ") + shown_name(one.name);
  }
  std::string text;
  for (const Group& group : groups) {
    text += (text.empty() ? "" : "; ") + group.reason + group.names;
    if (group.count > kNames) text += detail::concatenate(" and ", group.count - kNames, " more");
  }
  return groups.empty() ? "" : detail::concatenate("left out ", left_out.size(), ": ", text);
}

std::string FilesRead::to_string() const {
  const std::string others = left_out_text();
  return detail::concatenate("read ", files, files == 1 ? " file, " : " files, ", bytes_text_of(bytes),
                             others.empty() ? "" : "; ", others);
}

}  // namespace axonn
