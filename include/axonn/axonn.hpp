#pragma once

// Everything a trainer of one's own needs; for users only, the library itself includes narrowly.
#include "axonn/comm/environment.hpp"
#include "axonn/core/error.hpp"
#include "axonn/core/log.hpp"
#include "axonn/core/version.hpp"
#include "axonn/grid/grid.hpp"
#include "axonn/layers/attention.hpp"
#include "axonn/layers/context.hpp"
#include "axonn/layers/cross_entropy.hpp"
#include "axonn/layers/dropout.hpp"
#include "axonn/layers/embedding.hpp"
#include "axonn/layers/layer_norm.hpp"
#include "axonn/layers/layout.hpp"
#include "axonn/layers/linear.hpp"
#include "axonn/model/gpt_model.hpp"
#include "axonn/train/checkpoint/checkpoint.hpp"
#include "axonn/train/optimizer.hpp"
