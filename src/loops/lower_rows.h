// The lowering rows of Family::Indexed and Family::Factory, one span for each file.
#pragma once

#include "loops/lower.h"

namespace vesta::loops {

std::span<const ElementRow> factory_elements();   // lower_factory.cpp
std::span<const ElementRow> gather_elements();    // lower_gather.cpp: index, gather, embedding, take
std::span<const ElementRow> joining_elements();   // lower_joining.cpp: cat, stack, pad, slice_scatter, ...
std::span<const ElementRow> moving_elements();    // lower_moving.cpp: flip, roll, repeat, tril, ...
std::span<const ElementRow> resample_elements();  // lower_resample.cpp: upsampling
std::span<const ElementRow> window_elements();    // lower_window.cpp: pooling

}  // namespace vesta::loops
