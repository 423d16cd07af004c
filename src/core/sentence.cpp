#include "axonn/core/sentence.hpp"

#include <cerrno>
#include <filesystem>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "axonn/core/error.hpp"
#include "axonn/core/utf8.hpp"

namespace axonn {
namespace {

const char* cure_of(const std::error_code& reason) {
  if (reason.category() != std::generic_category() && reason.category() != std::system_category())
    return "name another path";
  switch (reason.value()) {
    case ELOOP:
      return "a link in the path leads back to itself: remove it, or name what it should lead to";
    case ENAMETOOLONG:
      return "give it a shorter name";
    case ENOTDIR:
      return "a part of the path is a file where a folder is needed: correct the path";
    case EISDIR:
      return "it is a folder where a file is needed: correct the path";
    case ENOENT:
      return "correct the path";
    case EACCES:
    case EPERM:
      return "give this user the right to use it, or name another path";
    case EROFS:
      return "nothing can be written in this place: name another path";
    case ENOSPC:
    case EDQUOT:
      return "make room there, or name another path";
    case EFBIG:
      return "raise the limit of a file's size (ulimit -f)";
    case EMFILE:
    case ENFILE:
      return "allow more open files (ulimit -n)";
    default:
      return "name another path, or mend the disk or file system";
  }
}

std::string name_of(const std::filesystem::path& path) {
  return path.empty() ? "the current folder" : shown_name(path.native());
}

}  // namespace

std::string reason_and_cure(std::error_code reason) { return reason.message() + "; " + cure_of(reason); }
std::string reason_and_cure(int error_number) { return reason_and_cure({error_number, std::system_category()}); }

std::string why_not_read(const std::string& file) {
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0) return reason_and_cure(errno);
  if (S_ISDIR(status.st_mode)) return reason_and_cure(EISDIR);
  if (!S_ISREG(status.st_mode)) return "it is no file; name a file";
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return reason_and_cure(errno);
  ::close(descriptor);
  return "it could not be read to its end; name another file, or mend the disk or file system";
}

std::string sentence_of(const std::exception& error, bool verbose) {
  if (const auto* ours = dynamic_cast<const Error*>(&error)) return verbose ? error.what() : ours->sentence();
  if (const auto* path = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    const std::string other = path->path2().empty() ? "" : " with " + name_of(path->path2());
    const std::string words = verbose ? " [" + std::string(error.what()) + "]" : "";
    return "cannot use " + name_of(path->path1()) + other + ": " + reason_and_cure(path->code()) + words;
  }
  return error.what();
}

}  // namespace axonn
