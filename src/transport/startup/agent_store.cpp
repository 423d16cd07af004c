#include <chrono>
#include <utility>

#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "axonn/transport/launch.hpp"
#include "axonn/core/error.hpp"
#include "transport/startup/meeting_place.hpp"

namespace axonn {
namespace {

constexpr std::chrono::milliseconds kPatience{10'000};  // per call

class InAgentStore final : public MeetingPlace {
 public:
  InAgentStore(std::string host, int port, std::string key)
      : host_(std::move(host)), port_(port), key_(std::move(key)), secret_(make_secret()) {}

  MeetingPoint wanted() const override { return {.hosts = {}, .port = 0, .secret = secret_}; }

  void publish(int port) override {
    const std::string text = text_of({hosts_of_this_process(), port, secret_});
    try {
      store().set(key_, std::vector<uint8_t>(text.begin(), text.end()));
    } catch (const std::exception& error) {
      throw BackendError(
          "comm.agent_store",
          detail::concatenate("torchrun's store at ", host_, " port ", port_, " took no key: ", error.what(),
                              "; set AXONN_INIT_FILE to a file that all hosts see, and "
                              "unset TORCHELASTIC_USE_AGENT_STORE"));
    }
  }

  std::optional<MeetingPoint> find() override {
    try {
      if (!store().check({key_})) return std::nullopt;
      const std::vector<uint8_t> text = store().get(key_);
      return parse_meeting_point(std::string(text.begin(), text.end()));
    } catch (const std::exception&) {
      store_.reset();  // the agent is not there yet
      return std::nullopt;
    }
  }

  std::string name() const override { return detail::concatenate("torchrun's store at ", host_, " port ", port_); }
  std::string need() const override { return "rank 0 must run under the same torchrun"; }

 private:
  c10d::TCPStore& store() {
    if (!store_) {
      c10d::TCPStoreOptions options;
      options.port = static_cast<uint16_t>(port_);
      options.isServer = false;
      options.waitWorkers = false;
      options.timeout = kPatience;
      store_ = c10::make_intrusive<c10d::TCPStore>(host_, options);
    }
    return *store_;
  }

  std::string host_;
  int port_;
  std::string key_, secret_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace

std::unique_ptr<MeetingPlace> meet_in_agent_store(std::string host, int port, std::string key) {
  return std::make_unique<InAgentStore>(std::move(host), port, std::move(key));
}

}  // namespace axonn
