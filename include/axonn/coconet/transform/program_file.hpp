#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "axonn/coconet/transform/transformation.hpp"

namespace axonn::coconet {

// A program and the schedules that its file gives it. After the program, each schedule begins with
// a line of its name; its transformations follow, one per line:
//
//   program sgd
//   ...
//   return w1
//
//   schedule fuse
//   split(sum, reduce_scatter)
//   reorder(sum, w1)
//   fuse(all, sum.part, w1.part, w1.whole, w1)
struct ProgramFile {
  struct NamedSchedule {
    std::string name;
    std::vector<Transformation> log;
    int line = 0;  // the name's in the file; 0: none
  };
  Program program;
  std::vector<NamedSchedule> schedules;
  std::string file = {};  // for errors

  // The program after a schedule's transformations; "plain" is the program as it is written.
  // UserError if there is no such schedule. If a transformation is refused, the error has the file,
  // the line, the schedule's name, and which of its transformations it is.
  Schedule scheduled(std::string_view schedule) const;
  // "FILE:LINE: schedule NAME" as far as they are known, for errors of what a schedule makes.
  std::string place_of(std::string_view schedule) const;
};

inline constexpr std::string_view kPlainSchedule = "plain";

// UserError with the file and the line.
ProgramFile parse_program_file(std::string_view text, std::string_view file);
ProgramFile load_program_file(const std::filesystem::path& path);

std::string to_text(const ProgramFile& file);

}  // namespace axonn::coconet
