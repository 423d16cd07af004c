#include "axonn/core/switches.hpp"

#include <gtest/gtest.h>

#include <string>

#include "axonn/core/error.hpp"
#include "axonn/terms/kernel_choice.hpp"

namespace axonn {
namespace {

TEST(KernelChoice, IsNamed) {
  EXPECT_EQ(to_string(KernelChoice()), "none");
  EXPECT_EQ(to_string(KernelChoice::all()), "all");
  EXPECT_EQ(to_string(parse_switches<KernelChoice>("tail, adamw")), "adamw,tail");
  for (unsigned bits = 0; bits < kSwitchCombinations<KernelChoice>; ++bits) {
    const auto set = switches_of<KernelChoice>(bits);
    EXPECT_EQ(parse_switches<KernelChoice>(to_string(set)), set) << bits;
  }
  for (const auto& [name, on] : Switches<KernelChoice>::kAll)
    EXPECT_EQ(to_string(parse_switches<KernelChoice>(name)), name);
}

TEST(KernelChoice, UnknownOnesAreRefused) {
  try {
    parse_switches<KernelChoice>("layer-nrm");
    ADD_FAILURE() << "accepted";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what())
                  .find("unknown kernel 'layer-nrm'; did you mean 'layer-norm'? (all, none, or a "
                        "list of cross-entropy, "),
              std::string::npos)
        << error.what();
  }
  for (const char* wrong : {"", "all,adamw", "adamw,none", "adamw,,tail"})
    EXPECT_THROW(parse_switches<KernelChoice>(wrong), UserError) << wrong;
}

}  // namespace
}  // namespace axonn
