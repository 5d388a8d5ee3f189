// What came out, in plain words.
#pragma once
#include <string>

#include "report/configurations.h"

namespace dp::report {

/// "S3: n = 2 is right on 99.2 % of sequences of length 512, four times the training length; n = 1 on
/// none." The length is the longest at which all evaluated runs of the group were measured; of several
/// seeds, their median counts and the range is given.
std::string verdict(const Group& group);

/// 0.992 -> "99.2 %"; "all" and "none" are said only of exactly these.
std::string percent(double share);

}  // namespace dp::report
