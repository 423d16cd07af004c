#pragma once

namespace axonn {

// The first thing in main(). A standard stream that the process was started without (`>&-`) would
// be the next file that it opens, and that file would get its output. So such a stream becomes
// /dev/null; what is printed to a standard output like this is an error of finish_output().
void open_standard_streams();

// For a run, which must not die of a pipe that nobody reads any more (`| head -1`): such a write
// fails from now on, as one to a full disk does.
void outlive_closed_pipes();

// Whether the standard output cannot be written any more. One that does not block, and whose reader
// is only slow, loses a part and has not failed.
bool output_failed();

// Whether progress on this stream (STDOUT_FILENO, STDERR_FILENO) is one line that is redrawn: as
// AXONN_PROGRESS says, else if the stream is a terminal that can do it (TERM is not dumb).
// UserError for another value of AXONN_PROGRESS.
bool redraws_lines(int descriptor);

// The last thing in main(), if the program has done its work. Writes what is buffered. UserError if
// a part of the standard output could not be written, now or before: a full disk, for example.
void finish_output();

}  // namespace axonn
