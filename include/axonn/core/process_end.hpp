#pragma once

namespace axonn {

// The end of main(), in place of its return: writes what is buffered, and ends the process without
// destroying globals. A large library needs nearly as long for that as for its start.
// The process ends as usual, with all handlers of its exit, where a tool may wait for that: under a
// sanitizer, with a preloaded library or with a profiler of CUDA. Environments must have ended.
[[noreturn]] void end_process(int status);

}  // namespace axonn
