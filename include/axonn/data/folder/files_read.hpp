#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace axonn {

// The files below --data: those that were read, and those left out. docs/data.md has the rule.
struct FilesRead {
  struct LeftOut {
    std::string reason;  // "gzip", "hidden", "link to nothing"
    std::string name;    // the file or folder, as bytes
  };

  int64_t files = 0;
  int64_t bytes = 0;
  std::vector<LeftOut> left_out = {};

  // "read 12 files, 3.1 MB; left out 3: hidden .git; gzip a.txt.gz, b.txt.gz". Three names of each
  // reason.
  std::string to_string() const;
  std::string left_out_text() const;  // "left out 3: ..."; empty if nothing was
};

}  // namespace axonn
