#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "axonn/transport/launch.hpp"
#include "axonn/core/error.hpp"
#include "transport/startup/meeting_place.hpp"

namespace axonn {
namespace {

constexpr const char* kWhere = "comm.init_file";
constexpr size_t kMostBytes = 64 << 10;  // that are read: the name may be another file's by mistake

class InFile final : public MeetingPlace {
 public:
  explicit InFile(std::string path) : path_(std::move(path)), secret_(make_secret()) {}

  MeetingPoint wanted() const override { return {.hosts = {}, .port = 0, .secret = secret_}; }

  // A rename shows the others either nothing or all of it.
  void publish(int port) override {
    const std::string text = text_of({hosts_of_this_process(), port, secret_});
    const std::string fresh = path_ + "." + std::to_string(::getpid());
    ::unlink(fresh.c_str());
    const int file = ::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    const bool written =
        file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && ::fsync(file) == 0;
    const int error = errno;
    if (file >= 0) ::close(file);
    if (written && ::rename(fresh.c_str(), path_.c_str()) == 0) return;
    const std::string problem = std::strerror(written ? errno : error);
    ::unlink(fresh.c_str());
    throw BackendError(kWhere, detail::concatenate("cannot write ", path_, ": ", problem,
                                                   "; set AXONN_INIT_FILE to a file in a folder that every host of "
                                                   "the job sees and you may write in"));
  }

  void close() override { ::unlink(path_.c_str()); }

  std::optional<MeetingPoint> find() override {
    std::error_code none;
    if (!std::filesystem::is_regular_file(path_, none)) return std::nullopt;  // a pipe would block
    std::ifstream file(path_);
    std::string text(kMostBytes, '\0');
    file.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<size_t>(file.gcount()));
    return parse_meeting_point(text);
  }

  std::string name() const override { return "the place that the file " + path_ + " names"; }
  std::string need() const override { return "AXONN_INIT_FILE must be one file that all hosts see"; }

 private:
  std::string path_, secret_;
};

}  // namespace

std::unique_ptr<MeetingPlace> meet_in_file(std::string path) { return std::make_unique<InFile>(std::move(path)); }

}  // namespace axonn
